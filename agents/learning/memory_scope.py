"""Memory contents as entries by piece: the sites on which each acts, and a memory as another's difference. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from eventlog.chain import canonical
from eventlog.events import Anchor

from ..plans import Plan, apply_change, place_of
from .occasions import CHANGE

Content = Mapping[str, Sequence[Mapping[str, Any]]]
"""Parsed content of a memory: the entries of each kind of piece, in order of id."""

REWRITES_KEY: Final = "rewrites"


def entries_of(content: bytes) -> dict[str, bytes]:
    """Canonical entry of each piece in a memory's content, keyed by its id."""
    return {entry["piece"]: canonical({"of": key, **entry}) for key, entry in _entries(json.loads(content))}


def sites_of(content: bytes, plans: Mapping[str, Sequence[Plan]] | None, only: str) -> dict[str, frozenset[str]]:
    """The environments on which each piece of a memory acts, keyed by its id.

    A rewrite acts where it would change one of the `plans` of an environment (None: on the `only` one that there is),
    any other piece where its occasion is.
    """
    return {entry["piece"]: _sites(key, entry, plans, only) for key, entry in _entries(json.loads(content))}


def compose_content(base: Content, today: Content, entered: Collection[str], left: Collection[str]) -> dict[str, Any]:
    """The base's entries without those that entered or left, and today's of those that entered."""
    gone = {*entered, *left}
    found: dict[str, Any] = {REWRITES_KEY: []}
    for key in sorted({*base, *today, REWRITES_KEY}):
        kept = [entry for entry in base.get(key, ()) if entry["piece"] not in gone]
        fresh = [entry for entry in today.get(key, ()) if entry["piece"] in entered]
        entries = sorted([*kept, *fresh], key=lambda entry: str(entry["piece"]))
        if entries or key == REWRITES_KEY:
            found[key] = entries
    return found


def _entries(content: Content) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key in sorted(content):
        for entry in content[key]:
            yield key, entry


def _sites(key: str, entry: Mapping[str, Any], plans: Mapping[str, Sequence[Plan]] | None, only: str) -> frozenset[str]:
    if key != REWRITES_KEY:
        return frozenset({entry["occasion"]["environment"]})
    if plans is None:
        return frozenset({only})
    anchor = Anchor.model_validate(entry["anchor"])
    change = CHANGE.validate_python(entry["change"], strict=False)

    def changes(plan: Plan) -> bool:
        place = place_of(plan, anchor)
        return place is not None and apply_change(plan[place], change) != (plan[place],)

    return frozenset(site for site, own in plans.items() if any(map(changes, own)))
