"""Recorded headers as they read today, so that a browser keeps what it kept, and asks no more than it asked. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final

_EXPIRES: Final = re.compile(r";\s*expires=([^;]*)", re.IGNORECASE)


def dated_today(headers: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Headers without their dates: how long an answer is fresh is told in seconds, and cookies last.

    A cookie that was given to be forgotten keeps its date.
    """
    told = list(headers)
    by_name = {name.lower(): value for name, value in told}
    answered, expires = _time(by_name.get("date")), _time(by_name.get("expires"))
    for name, value in told:
        match name.lower():
            case "date" | "age" | "expires":
                continue
            case "set-cookie":
                yield name, _EXPIRES.sub(lambda found: _past_date(found, answered), value)
            case _:
                yield name, value
    if "cache-control" not in by_name and answered is not None and expires is not None:
        yield "cache-control", f"max-age={max(0, int((expires - answered).total_seconds()))}"


def _past_date(found: re.Match[str], answered: datetime | None) -> str:
    """The date of a cookie if it lay in the past by then, else nothing."""
    until = _time(found[1])
    is_past = until is not None and until <= (answered or until)
    return found[0] if is_past else ""


def _time(text: str | None) -> datetime | None:
    """A time of HTTP; None if there is none, or it is no time."""
    try:
        found = None if text is None else parsedate_to_datetime(text)
    except ValueError:
        return None
    return found if found is None or found.tzinfo is not None else None
