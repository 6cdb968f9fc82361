"""Groups: the siblings of one instance and their rewards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec.structs import replace

from .engine.projection import EventRow, Fold, FoldState
from .runs import recorded_artifact_name


class Sibling(FoldState, frozen=True, kw_only=True):
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


class GroupState(FoldState, frozen=True, kw_only=True):
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


def _join(state: GroupState, row: EventRow) -> GroupState:
    sibling = Sibling(
        run=row.text("run"),
        index=row.number("spec.sibling_index"),
        candidate=row.maybe_text("spec.candidate"),
        withheld=row.maybe_text("spec.withheld"),
    )
    siblings = sorted((*state.siblings, sibling), key=lambda s: (s.index, s.run))
    arm = row.maybe_record("arm") or {}
    return replace(
        state,
        group=row.text("spec.group_id"),
        sweep=row.text("spec.sweep"),
        template=row.text("spec.template"),
        env_seed=row.number("spec.env_seed"),
        environment=row.text("task_spec.environment"),
        artifact=recorded_artifact_name(row.record("artifact")),
        evaluation=arm.get("evaluation"),
        siblings=tuple(siblings),
    )


def _about(sibling: Sibling, row: EventRow) -> Sibling:
    match row.type:
        case "InstanceReset":
            return replace(sibling, fingerprint=row.text("fingerprint"))
        case "RunMissing":
            return replace(sibling, missing=True)
        case _:
            return replace(
                sibling,
                score=row.number("score"),
                passed=row.flag("passed"),
                value=row.maybe_number("value"),
                shaping=row.maybe_text("shaping"),
                shaped=row.maybe_number("shaped"),
            )


def _fold(state: GroupState, row: EventRow) -> GroupState:
    if row.type == "RunStarted":
        return _join(state, row)
    run = row.text("run")
    return replace(state, siblings=tuple(_about(s, row) if s.run == run else s for s in state.siblings))


GROUPS = Fold(
    name="groups",
    version=5,
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
    initial=GroupState(),
    key=lambda row: row.text("spec.group_id") if row.type == "RunStarted" else row.text("group"),
    fold=_fold,
    rests_on=dict.fromkeys(("RunStarted", "InstanceReset", "RunMissing", "RewardGraded"), ("run",)),
)
