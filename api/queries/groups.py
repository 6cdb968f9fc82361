"""Groups: the siblings of one instance, how far their rewards are apart, and what that teaches."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from msgspec.structs import replace

from projections.datasets.advantages import NANO, advantages
from projections.engine.views import Views
from projections.groups import GROUPS, GroupState, Sibling, assemble_groups, find_group, key_after_group
from projections.runs import RUNS

from ..errors import Unknown
from .untold import find_confirming, find_hidden

MOST_SIBLINGS = 300
"""Siblings that are read at once; a larger group is shown in part."""

MOST_READS = 20
"""Reads for one page of groups, where most groups are left out."""

_EPS = "0.0001"
_UNTOLD = dict.fromkeys(("score", "passed", "value", "shaping", "shaped"))


class SiblingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A sibling and its advantage over the others in millionths, null if it has no reward or none differ."""

    sibling: Sibling
    advantage: int | None


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group; `mean`, `low` and `high` are of the scores of its siblings, in millionths, null if none was graded.

    Those of sealed runs are left out while their benchmark can judge.
    """

    group: GroupState
    graded: int
    mean: int | None
    low: int | None
    high: int | None
    siblings: tuple[SiblingRow, ...]

    @property
    def spread(self) -> int:
        """The highest score less the lowest, in millionths; 0 teaches nothing."""
        return (self.high or 0) - (self.low or 0)


class GroupPage(msgspec.Struct, frozen=True, kw_only=True):
    """Groups in order of name; `next` is the group to continue after, null where no more follow."""

    groups: tuple[GroupRow, ...]
    next: str | None


def list_groups(
    views: Views, *, prefix: str = "", after: str | None = None, limit: int = 25, has_evaluations: bool = True
) -> GroupPage:
    """A page of groups whose names start with a prefix; those of evaluations only with `has_evaluations`.

    A page ends after MOST_READS reads, even if few of the groups are wanted.
    """
    found: list[GroupState] = []
    for _ in range(MOST_READS):
        page, after = _read_groups(views, prefix, after)
        found += [each for each in page if has_evaluations or each.evaluation is None]
        if after is None or len(found) >= limit:
            break
    shown = found[:limit]
    following = shown[-1].group if len(found) > limit else after
    return GroupPage(groups=tuple(map(_row, _tell_groups(views, shown))), next=following)


def _read_groups(views: Views, prefix: str, after: str | None) -> tuple[list[GroupState], str | None]:
    """Groups of one read, each whole unless it is larger than that, and the group to continue after."""
    start = None if after is None else key_after_group(after)
    page = views.page(GROUPS, start, MOST_SIBLINGS, prefix)
    found = list(assemble_groups(page.values()).values())
    if len(page) < MOST_SIBLINGS:
        return found, None
    if len(found) > 1:
        found.pop()  # the rest of its siblings are on the next page
    return found, found[-1].group


def show_group(views: Views, name: str) -> GroupRow:
    """One group. Raises Unknown."""
    state = find_group(views, name)
    if state is None:
        raise Unknown(what="group", actual=name, way_out="A run names its group: see `flywheel runs show RUN`.")
    return _row(*_tell_groups(views, [state]))


def _tell_groups(views: Views, groups: Collection[GroupState]) -> tuple[GroupState, ...]:
    """These groups, without what their runs earned where it may not be told yet, and without confirming repeats."""
    runs = views.pick(RUNS, [sibling.run for each in groups for sibling in each.siblings])
    hidden = find_hidden(views, runs.values())
    confirming = find_confirming(views, runs, hidden)
    return tuple(
        replace(
            each,
            siblings=tuple(
                replace(sibling, **_UNTOLD) if sibling.run in hidden else sibling
                for sibling in each.siblings
                if sibling.run not in confirming
            ),
        )
        for each in groups
    )


def _row(group: GroupState) -> GroupRow:
    scores = [sibling.score for sibling in group.siblings if sibling.score is not None]
    plain = [sibling for sibling in group.siblings if sibling.is_plain and sibling.score is not None]
    found = _advantages([sibling.score or 0 for sibling in plain])
    own = dict(zip((sibling.run for sibling in plain), found, strict=True))
    return GroupRow(
        group=group,
        graded=len(scores),
        mean=sum(scores) // len(scores) if scores else None,
        low=min(scores, default=None),
        high=max(scores, default=None),
        siblings=tuple(SiblingRow(sibling=each, advantage=own.get(each.run)) for each in group.siblings),
    )


def _advantages(scores: list[int]) -> list[int | None]:
    """Advantages of scores over their mean in millionths; None where there is nothing to compare."""
    if len(set(scores)) < 2:  # noqa: PLR2004 two scores differ
        return [None] * len(scores)
    return [value * 1_000_000 // NANO for value in advantages(scores, 1, _EPS)]
