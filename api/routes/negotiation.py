"""Content negotiation: which of the offered media types an Accept header prefers. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

_Q = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


def preferred_type(accept: str | None, offered: Sequence[str]) -> str | None:
    """The offered type with the highest weight, the first of equals; None where nothing offered is accepted.

    The most specific range that matches a type gives its weight. Ranges that cannot be read are passed over.
    """
    if accept is None or not accept.strip():
        return offered[0]
    ranges = dict(_ranges(accept))
    weights = {media: _weight(media, ranges) for media in offered}
    best = max(offered, key=lambda media: weights[media])
    return best if weights[best] > 0 else None


def _ranges(accept: str) -> list[tuple[str, float]]:
    found = []
    for part in accept.split(","):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        weight = next((item[2:].strip() for item in parameters if item.startswith("q=")), "1")
        if _Q.fullmatch(weight):
            found.append((media, float(weight)))
    return found


def _weight(media: str, ranges: dict[str, float]) -> float:
    kind = media.split("/", maxsplit=1)[0]
    return next((ranges[name] for name in (media, f"{kind}/*", "*/*") if name in ranges), 0.0)
