"""Millionths and other parts of one as decimal text. Pure."""

from __future__ import annotations

_MICRO_DIGITS = 6
_PICO_DIGITS = 12


def decimal(millionths: int) -> str:
    """`-125_000` as `-0.125`, `1_000_000` as `1`; exact, without trailing zeros."""
    return _written(millionths, _MICRO_DIGITS)


def probability(pico: int) -> str:
    """A probability in units of 10^-12: `488_281_250` as `0.00048828125`; exact, without trailing zeros."""
    return _written(pico, _PICO_DIGITS)


def _written(parts: int, places: int) -> str:
    whole, part = divmod(abs(parts), 10**places)
    digits = f"{part:0{places}d}".rstrip("0")
    return f"{'-' if parts < 0 else ''}{whole}{'.' if digits else ''}{digits}"


def dollars(micro_dollars: int | None) -> str:
    """`2_500_000` as `$2.5`; None as `unknown`."""
    return "unknown" if micro_dollars is None else f"${decimal(micro_dollars)}"


def counted(count: int, noun: str) -> str:
    """`1 regression`, `2 regressions`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
