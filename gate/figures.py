"""Millionths and probabilities as decimal text. Pure."""

from __future__ import annotations

import re

_MICRO, _PICO = 1_000_000, 10**12


def decimal(millionths: int) -> str:
    """`-125_000` as `-0.125`, `1_000_000` as `1`; exact, without trailing zeros."""
    whole, part = divmod(abs(millionths), _MICRO)
    digits = f"{part:06d}".rstrip("0")
    return f"{'-' if millionths < 0 else ''}{whole}{'.' if digits else ''}{digits}"


def dollars(micro_dollars: int | None) -> str:
    """`2_500_000` as `$2.5`; None as `unknown`."""
    return "unknown" if micro_dollars is None else f"${decimal(micro_dollars)}"


def count_noun(count: int, noun: str) -> str:
    """`1 regression`, `2 regressions`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


_TINY = re.compile(r"\b0\.000000\d+")


def shorten_tiny(text: str) -> str:
    """The text with each number below a millionth as `< 0.000001`; only probabilities have more than six places.

    For text that is shown. A verdict states its reasons in full: `gate verify` compares them byte for byte.
    """
    return _TINY.sub("< 0.000001", text)


def probability(pico: int) -> str:
    """`4_999_000_000` (units of 10^-12) as `0.004999`; exact, without trailing zeros."""
    whole, part = divmod(pico, _PICO)
    digits = f"{part:012d}".rstrip("0")
    return f"{whole}{'.' if digits else ''}{digits}"
