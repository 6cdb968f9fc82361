"""Lanternpost, a support desk: an inbox, replies with macros, duplicates, and the personal data of customers."""
