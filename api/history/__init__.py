"""Operations on recorded history: replay, regrade, withdraw, erase, sign, what-if."""
