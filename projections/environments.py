"""Environments: the newest probe report of each, and its admission."""

from __future__ import annotations

from msgspec.structs import replace

from .engine.projection import EventRow, Fold, FoldState


class ProbeFinding(FoldState, frozen=True, kw_only=True):
    """The result of one probe."""

    name: str
    outcome: str
    detail: str


class Fingerprint(FoldState, frozen=True, kw_only=True):
    """The fingerprint of a seed's start state."""

    env_seed: int
    fingerprint: str


class EnvironmentState(FoldState, frozen=True, kw_only=True):
    """An environment: its newest probe report, and since when it is admitted (None: not admitted).

    `admitted_tasks` is the digest of the admitted tasks; the admission lapses if the site grades other tasks, and ends
    with a later report in which a probe failed. The right answer of the tasks in `alike` is the same at every seed.
    """

    environment: str = ""
    url: str | None = None
    probed_since: int = 0
    tasks: tuple[str, ...] = ()
    tasks_digest: str = ""
    probes: tuple[ProbeFinding, ...] = ()
    seeds: tuple[int, ...] = ()
    rng_seed: int = 0
    fingerprints: tuple[Fingerprint, ...] = ()
    alike: tuple[str, ...] = ()
    admitted_since: int | None = None
    admitted_tasks: str | None = None
    admitted_by: str | None = None
    reason: str | None = None
    rests_on: int | None = None

    @property
    def failed_probes(self) -> tuple[str, ...]:
        """Names of the probes that failed in the newest report."""
        return tuple(probe.name for probe in self.probes if probe.outcome == "failed")

    def admits(self, tasks_digest: str) -> bool:
        """True if the environment is admitted with these tasks."""
        return self.admitted_since is not None and self.admitted_tasks == tasks_digest


def _fold(state: EnvironmentState, row: EventRow) -> EnvironmentState:
    if row.type == "EnvironmentAdmitted":
        return replace(
            state,
            environment=row.text("environment"),
            admitted_since=row.position,
            admitted_tasks=row.text("tasks_digest"),
            admitted_by=row.text("by"),
            reason=row.text("reason"),
            rests_on=row.number("probe"),
        )
    probes = tuple(ProbeFinding(**probe) for probe in row.records("probes"))
    fresh = EnvironmentState(
        environment=row.text("environment"),
        url=row.maybe_text("url"),
        probed_since=row.position,
        tasks=tuple(row.field("tasks")),
        tasks_digest=row.text("tasks_digest"),
        probes=probes,
        seeds=tuple(row.field("seeds")),
        rng_seed=row.number("rng_seed"),
        fingerprints=tuple(Fingerprint(**each) for each in row.records("fingerprints")),
        alike=tuple(row.field("alike") or ()),
    )
    if fresh.failed_probes:
        return fresh
    return replace(
        fresh,
        admitted_since=state.admitted_since,
        admitted_tasks=state.admitted_tasks,
        admitted_by=state.admitted_by,
        reason=state.reason,
        rests_on=state.rests_on,
    )


ENVIRONMENTS = Fold(
    name="environments",
    version=3,
    reads={
        "EnvironmentProbed": (
            "environment",
            "url",
            "tasks",
            "tasks_digest",
            "probes",
            "seeds",
            "rng_seed",
            "fingerprints",
            "alike",
        ),
        "EnvironmentAdmitted": ("environment", "probe", "tasks_digest", "by", "reason"),
    },
    initial=EnvironmentState(),
    key=lambda row: row.text("environment"),
    fold=_fold,
)
