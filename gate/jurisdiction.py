"""Sites on which a verdict counts: a piece of memory counts where it acts, other weights count everywhere. Pure.

Memory has one pointer, and a piece may change runs of one site or of several. So a challenger before a site's benchmark
differs from the champion only in pieces that act there, and the pointer moves only when every piece that enters has a
promoting verdict of each site on which it acts. ADR 20 gives the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from eventlog.events import Memory

Sites = frozenset[str]
NOWHERE: Final[Sites] = frozenset()
NOTHING: Final[Mapping[str, Sites]] = {}


@dataclass(frozen=True, slots=True)
class Contents:
    """Weights, and the pieces of a memory: each id with what the memory holds of it, so that a changed one differs."""

    weights: str
    pieces: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MemoryDifference:
    """Pieces in which two memories differ: `entered` are new or changed in the challenger's, `left` are gone."""

    entered: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def is_none(self) -> bool:
        """True if the memories hold the same."""
        return not self.entered and not self.left


@dataclass(frozen=True, slots=True)
class MissingVerdict:
    """A promoting verdict that a promotion still waits for: of this site, on a piece (None: on the weights)."""

    site: str
    piece: str | None = None


def compare_memories(champion: Contents, challenger: Contents) -> MemoryDifference:
    """Pieces that a challenger's memory has and the champion's has not, or otherwise, and those that it lacks."""
    before, after = champion.pieces, challenger.pieces
    entered = (name for name, held in after.items() if name not in before or before[name] != held)
    return MemoryDifference(tuple(sorted(entered)), tuple(sorted(before.keys() - after.keys())))


def acts_elsewhere(differing: MemoryDifference, acts: Mapping[str, Sites], site: str) -> tuple[str, ...]:
    """The pieces that enter though they do not act on this site. Taking a piece out needs no verdict."""
    return tuple(name for name in differing.entered if site not in acts.get(name, NOWHERE))


def challenge_on(
    site: str,
    champion: Contents,
    today: Contents,
    acts: Mapping[str, Sites],
    judged: Mapping[str, Sites] = NOTHING,
) -> MemoryDifference:
    """The difference that a challenger before a site's benchmark may have, given the memory of `today`.

    Pieces that act here alone enter as they are today, and leave if they are gone. A piece that also acts elsewhere
    enters if this site's is the only verdict that it lacks (`judged`: the sites that promoted each piece). If nothing
    else differs, such pieces are judged here first, and the pointer waits for the other sites. So a piece that waits
    for another site holds up no other. A piece of several sites that the champion has stays there as it is.
    """
    here = {name for name, sites in acts.items() if site in sites}
    left = tuple(sorted((champion.pieces.keys() - today.pieces.keys()) & here))
    new = [name for name in sorted(today.pieces.keys() & here) if name not in champion.pieces]
    ready = [name for name in new if acts[name] <= judged.get(name, NOWHERE) | {site}]
    changed = [
        name
        for name in sorted(today.pieces.keys() & champion.pieces.keys())
        if acts.get(name) == frozenset({site}) and today.pieces[name] != champion.pieces[name]
    ]
    found = MemoryDifference(tuple(sorted([*ready, *changed])), left)
    return MemoryDifference(tuple(new)) if found.is_none else found


def missing_verdicts(
    site: str,
    champion: Contents,
    challenger: Contents,
    acts: Mapping[str, Sites],
    *,
    sites: Iterable[str],
    judged: Mapping[str, Sites] = NOTHING,
    weights_judged: Set[str] = NOWHERE,
) -> tuple[MissingVerdict, ...]:
    """The verdicts that a promotion on a site still waits for; none if the pointer may move.

    Each piece that enters needs a promoting verdict of each site on which it acts; other weights act everywhere, so
    they need one of each of the `sites` that have a benchmark. The verdict of this site is the one at hand.
    """
    found = [
        MissingVerdict(other, name)
        for name in compare_memories(champion, challenger).entered
        for other in sorted(acts.get(name, NOWHERE) - judged.get(name, NOWHERE) - {site})
    ]
    if challenger.weights != champion.weights:
        found += [MissingVerdict(other) for other in sorted({*sites} - weights_judged - {site})]
    return tuple(found)


def entered_since(present: Memory, restored: Memory) -> frozenset[str] | None:
    """The pieces that entered since a memory on which the present one is built; None if it is built on none."""
    scope = present.scope
    return frozenset(scope.entered) if scope is not None and scope.base == restored.digest else None


def describe_missing_verdicts(missing: Iterable[MissingVerdict]) -> str:
    """The verdicts waited for, in words."""
    by_site: dict[str, list[str]] = {}
    for each in missing:
        by_site.setdefault(each.site, []).append(each.piece or "the weights")
    return "; ".join(f"{site} on {', '.join(names)}" for site, names in by_site.items())
