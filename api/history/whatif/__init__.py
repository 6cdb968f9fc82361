"""History under another promotion rule or another reward, beside the truth. Nothing is appended."""
