"""Requests of all kinds to every endpoint, for so long, and what was answered otherwise than described."""
