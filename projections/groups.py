"""Groups: the siblings of one instance and what each of them earned."""

from __future__ import annotations

from msgspec.structs import replace

from .projection import Fold, Row, State
from .runs import name_of


class Sibling(State, frozen=True, kw_only=True):
    """One run of a group; None is not known (yet)."""

    run: str
    index: int
    candidate: str | None = None
    fingerprint: str | None = None
    missing: bool = False
    score: int | None = None
    passed: bool | None = None
    value: int | None = None


class GroupState(State, frozen=True, kw_only=True):
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
    def is_contaminated(self) -> bool:
        """Whether siblings started from different states."""
        return len({s.fingerprint for s in self.siblings if s.fingerprint is not None}) > 1


def _joined(state: GroupState, row: Row) -> GroupState:
    sibling = Sibling(
        run=row.text("run"), index=row.number("spec.sibling_index"), candidate=row.maybe_text("spec.candidate")
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
        artifact=name_of(row.record("artifact")),
        evaluation=arm.get("evaluation"),
        siblings=tuple(siblings),
    )


def _about(sibling: Sibling, row: Row) -> Sibling:
    match row.type:
        case "InstanceReset":
            return replace(sibling, fingerprint=row.text("fingerprint"))
        case "RunMissing":
            return replace(sibling, missing=True)
        case _:
            return replace(
                sibling, score=row.number("score"), passed=row.flag("passed"), value=row.maybe_number("value")
            )


def _fold(state: GroupState, row: Row) -> GroupState:
    if row.type == "RunStarted":
        return _joined(state, row)
    run = row.text("run")
    return replace(state, siblings=tuple(_about(s, row) if s.run == run else s for s in state.siblings))


GROUPS = Fold(
    name="groups",
    version=2,
    reads={
        "RunStarted": (
            "run",
            "spec.group_id",
            "spec.sweep",
            "spec.template",
            "spec.env_seed",
            "spec.sibling_index",
            "spec.candidate",
            "task_spec.environment",
            "artifact",
            "arm",
        ),
        "InstanceReset": ("run", "group", "fingerprint"),
        "RunMissing": ("run", "group"),
        "RewardGraded": ("run", "group", "score", "passed", "value"),
    },
    initial=GroupState(),
    key=lambda row: row.text("spec.group_id") if row.type == "RunStarted" else row.text("group"),
    fold=_fold,
    rests_on=dict.fromkeys(("RunStarted", "InstanceReset", "RunMissing", "RewardGraded"), ("run",)),
)
