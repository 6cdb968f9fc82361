"""Errors that a browser gets beside those of REST."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class SignedOut(FlywheelError):
    """Nobody is signed in here, or the session has ended: sign in with a token."""


class ForgedForm(FlywheelError):
    """The form was not sent from a page of this session: {actual}. Nothing was changed. Open the page again, and send it from there."""


class NotConfirmed(FlywheelError):
    """Nothing was changed: {actual!r} was typed to confirm; expected {expected!r}."""


class TokenRefused(FlywheelError):
    """The token is not accepted. Issue one with `flywheel token issue NAME --role operate`, and paste all of it."""
