"""What takes longer in a log ten times longer, and what state weighs beside it."""
