"""Figures and names as people read them: filters of the templates. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sized
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from gate.figures import count_noun, dollars, probability, shorten_tiny

from ..queries.changes import describe_change
from ..queries.encoding import encode_value

_MICRO, _PERCENT = 1_000_000, 10_000
_SHORT = 12
_SCORES = frozenset({"min_score", "margin", "least"})
UNKNOWN: Final = "unknown"


def number(value: int | None) -> str:
    """`12345` as `12 345`, with narrow spaces."""
    return UNKNOWN if value is None else f"{value:,}".replace(",", "\u202f")


def decimal_of(value: int | None) -> str:
    """Millionths as a decimal with at most three places."""
    return UNKNOWN if value is None else f"{value / _MICRO:.3f}".rstrip("0").rstrip(".")


def percent(value: int | None) -> str:
    """Millionths as a percentage."""
    return UNKNOWN if value is None else f"{value / _PERCENT:.0f} %"


def chance(pico: int | None) -> str:
    """A probability in 10^-12 as a decimal; one below a millionth as `< 0.000001`."""
    return UNKNOWN if pico is None else shorten_tiny(probability(pico))


def money(value: int | None) -> str:
    """Micro-dollars as dollars with at most four places."""
    return dollars(value if value is None else round(value, -2))


def shorten(name: str) -> str:
    """The first characters of a digest; other names as they are."""
    is_digest = len(name) > 2 * _SHORT and all(letter in "0123456789abcdef" for letter in name)
    return f"{name[:_SHORT]}…" if is_digest else name


def moment(value: datetime | int) -> str:
    """A time in UTC to the second; an integer is microseconds since 1970."""
    at = datetime.fromtimestamp(value / _MICRO, UTC) if isinstance(value, int) else value.astimezone(UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}"


def seconds(microseconds: int | None) -> str:
    """Microseconds as seconds."""
    return UNKNOWN if microseconds is None else f"{microseconds / _MICRO:.2f} s"


def plain_words(name: str) -> str:
    """`out_of_budget` as `out of budget`."""
    return name.replace("_", " ")


def describe_value(value: object, name: str = "") -> str:
    """A part of a query: yes or no, scores as decimals, anything else as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return decimal_of(value) if isinstance(value, int) and name in _SCORES else str(value)


def as_json(value: object) -> str:
    """Any value as JSON on several lines."""
    text = msgspec.json.encode(value, enc_hook=encode_value).decode()
    return json.dumps(json.loads(text), indent=2, ensure_ascii=False)


def plot_data(value: Mapping[str, Any]) -> str:
    """Data of a picture, for its attribute `data-plot`."""
    return msgspec.json.encode(value).decode()


def count_of(values: Sized, noun: str) -> str:
    """How many there are, with a noun."""
    return count_noun(len(values), noun)


FILTERS: Final[Mapping[str, Callable[..., str]]] = {
    "number": number,
    "micro": decimal_of,
    "percent": percent,
    "chance": chance,
    "money": money,
    "shorten": shorten,
    "moment": moment,
    "seconds": seconds,
    "plain": plain_words,
    "as_json": as_json,
    "value": describe_value,
    "plot_data": plot_data,
    "count": count_noun,
    "count_of": count_of,
    "change": describe_change,
}
