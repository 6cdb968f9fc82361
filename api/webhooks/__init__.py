"""Webhooks: signed messages about verdicts and moves of the champion, sent until they are taken."""
