"""Groups: the siblings of one instance and their rewards.

A sibling is a row, replaced as its run goes on; a group is put together from its rows when it is read. The rows of a
group are neighbours, and groups come in order of the bytes of their names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from .engine.projection import EventRow, Fold, FoldState
from .runs import recorded_artifact_name

if TYPE_CHECKING:
    from .engine.views import Views

_ENDS: Final = "\x01\x01"
"""Ends a group's name in a key: the least character that the database takes, twice."""

_WITHIN: Final = "\x01", "\x01\x02"
"""That character inside a name, and what stands for it there, so that names keep their order."""

_REST, _WHOLE = "+", "="
"""How a key goes on: with the rest of a run's name that begins with the group's, or with the whole name."""


class Sibling(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a group; None means unknown. `candidate` is the piece it carried, `withheld` the piece left out."""

    run: str
    index: int
    candidate: str | None = None
    withheld: str | None = None
    fingerprint: str | None = None
    missing: bool = False
    score: int | None = None
    passed: bool | None = None
    value: int | None = None
    shaping: str | None = None
    shaped: int | None = None

    @property
    def is_plain(self) -> bool:
        """True if the run played its artifact unchanged: no candidate, no withheld piece."""
        return self.candidate is None and self.withheld is None


def contaminated_starts(starts: Mapping[str, str | None]) -> frozenset[str]:
    """The runs of one instance whose start state differs from the most common one; `starts` maps runs to fingerprints.

    If the most common fingerprint is tied, all runs with a known start are contaminated. A run with an unknown start
    (None) is not contaminated and does not count.
    """
    counts = Counter(start for start in starts.values() if start is not None)
    most = max(counts.values(), default=0)
    commonest = [start for start, count in counts.items() if count == most]
    clean = {None, *commonest} if len(commonest) == 1 else {None}
    return frozenset(run for run, start in starts.items() if start not in clean)


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """One instance and its siblings in order of index."""

    group: str = ""
    sweep: str = ""
    template: str = ""
    env_seed: int = 0
    environment: str = ""
    evaluation: str | None = None
    artifact: str = ""
    siblings: tuple[Sibling, ...] = ()

    @property
    def contaminated_siblings(self) -> frozenset[str]:
        """The siblings whose start state differs from the others'."""
        return contaminated_starts({sibling.run: sibling.fingerprint for sibling in self.siblings})


class SiblingState(FoldState, frozen=True, kw_only=True):
    """One sibling with what its start says of the group; `since` is the position of that start."""

    group: str = ""
    run: str = ""
    since: int = 0
    sweep: str = ""
    template: str = ""
    env_seed: int = 0
    environment: str = ""
    artifact: str = ""
    index: int = 0
    fingerprint: str | None = None
    score: int | None = None
    passed: bool | None = None
    value: int | None = None
    shaping: str | None = None
    shaped: int | None = None
    evaluation: str | None = None
    candidate: str | None = None
    withheld: str | None = None
    missing: bool = False

    @property
    def sibling(self) -> Sibling:
        """The sibling without what it says of the group."""
        return Sibling(**{name: getattr(self, name) for name in Sibling.__struct_fields__})


def find_groups(views: Views, prefix: str = "") -> dict[str, GroupState]:
    """The groups whose names start with a prefix, in order of name bytes."""
    return assemble_groups(views.find(GROUPS, prefix.replace(*_WITHIN)).values())


def pick_groups(views: Views, names: Iterable[str]) -> dict[str, GroupState]:
    """The groups among these to which a run that counts belongs."""
    return assemble_groups(views.find_each(GROUPS, [_prefix_of(name) for name in names]).values())


def find_group(views: Views, group: str) -> GroupState | None:
    """A group by its name, or None if no run that counts belongs to it."""
    return pick_groups(views, (group,)).get(group)


def key_after_group(group: str) -> str:
    """A key that comes after those of a group's siblings and before those of the next group."""
    return f"{_prefix_of(group)}\x7f"


def assemble_groups(siblings: Iterable[SiblingState]) -> dict[str, GroupState]:
    """The groups of these siblings, in order of appearance. What their starts say differently, the latest decides."""
    found: dict[str, list[SiblingState]] = {}
    for state in siblings:
        found.setdefault(state.group, []).append(state)
    return {group: _assemble(own) for group, own in found.items()}


def _assemble(states: list[SiblingState]) -> GroupState:
    last = max(states, key=lambda state: state.since)
    return GroupState(
        group=last.group,
        sweep=last.sweep,
        template=last.template,
        env_seed=last.env_seed,
        environment=last.environment,
        evaluation=last.evaluation,
        artifact=last.artifact,
        siblings=tuple(each.sibling for each in sorted(states, key=lambda each: (each.index, each.run))),
    )


def page_groups(pages: Iterable[Mapping[str, SiblingState]], size: int) -> Iterator[dict[str, GroupState]]:
    """Whole groups, at most `size` at a time, out of pages of siblings in order of key."""
    waiting: dict[str, list[SiblingState]] = {}
    for state in (state for page in pages for state in page.values()):
        if state.group not in waiting and len(waiting) == size:
            yield {group: _assemble(own) for group, own in waiting.items()}
            waiting = {}
        waiting.setdefault(state.group, []).append(state)
    if waiting:
        yield {group: _assemble(own) for group, own in waiting.items()}


def _prefix_of(group: str) -> str:
    return group.replace(*_WITHIN) + _ENDS


def _key_of(group: str, run: str) -> str:
    rest = _REST + run[len(group) :] if run.startswith(group) else _WHOLE + run
    return _prefix_of(group) + rest


def _stream_of(key: str) -> str:
    """The stream of the run that a key names."""
    group, _, rest = key.partition(_ENDS)
    begins = group.replace(_WITHIN[1], _WITHIN[0]) if rest.startswith(_REST) else ""
    return f"run/{begins}{rest[1:]}"


def _start(row: EventRow) -> SiblingState:
    arm = row.maybe_record("arm") or {}
    return SiblingState(
        group=row.text("spec.group_id"),
        since=row.position,
        sweep=row.text("spec.sweep"),
        template=row.text("spec.template"),
        env_seed=row.number("spec.env_seed"),
        environment=row.text("task_spec.environment"),
        artifact=recorded_artifact_name(row.record("artifact")),
        evaluation=arm.get("evaluation"),
        run=row.text("run"),
        index=row.number("spec.sibling_index"),
        candidate=row.maybe_text("spec.candidate"),
        withheld=row.maybe_text("spec.withheld"),
    )


def _fold(state: SiblingState, row: EventRow) -> SiblingState:
    if row.type == "RunStarted":
        return _start(row)
    if not state.run:
        return state  # a run that was not started is in no group
    match row.type:
        case "InstanceReset":
            return replace(state, fingerprint=row.text("fingerprint"))
        case "RunMissing":
            return replace(state, missing=True)
        case _:
            return replace(
                state,
                score=row.number("score"),
                passed=row.flag("passed"),
                value=row.maybe_number("value"),
                shaping=row.maybe_text("shaping"),
                shaped=row.maybe_number("shaped"),
            )


GROUPS = Fold(
    name="groups",
    version=6,
    reads={
        "RunStarted": (
            "run",
            "spec.group_id",
            "spec.sweep",
            "spec.template",
            "spec.env_seed",
            "spec.sibling_index",
            "spec.candidate",
            "spec.withheld",
            "task_spec.environment",
            "artifact",
            "arm",
        ),
        "InstanceReset": ("run", "group", "fingerprint"),
        "RunMissing": ("run", "group"),
        "RewardGraded": ("run", "group", "score", "passed", "value", "shaping", "shaped"),
    },
    initial=SiblingState(),
    key=lambda row: _key_of(row.text("spec.group_id" if row.type == "RunStarted" else "group"), row.text("run")),
    fold=_fold,
    stream_of=_stream_of,
    rests_on=dict.fromkeys(("RunStarted", "InstanceReset", "RunMissing", "RewardGraded"), ("run",)),
)
