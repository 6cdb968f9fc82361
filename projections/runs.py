"""Runs: one row for each run, with its spec, artifact and end."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from eventlog import events

from .engine.projection import EventRow, Fold, FoldState

OUTSIDE: Final = "ext-"
"""Name prefix of imported runs, groups and sweeps. Names made by the platform never start with it."""


POLICIES: Final = frozenset({"policy", "policy-screenshot", "policy-tools"})
"""Executors in which a model chooses each action, by the text of a page or by a picture of the window."""

REMOTE: Final = "remote"
"""The executor whose runs another Flywheel plays, by a policy there."""

PLANLESS: Final = POLICIES | {"agent", "miniwob-script", "delegation", "delegation-plan", REMOTE}
"""Executors whose runs do not follow the recorded plan."""

AGENT: Final = "agent"
"""The executor of agents from outside. Sweeps and evaluations name the agent behind it, `agent:` and a digest."""

ADVISED: Final = POLICIES | {"agent", "delegation"}
"""Planless executors that are told pieces of memory in words; the fast loop teaches them by lessons in words, and
delegation loops by skills."""

DEMONSTRATION: Final = "demonstration"
"""The executor that plays a plan as a policy's conversation. Its last step, "finish", is not in the plan."""


class RunState(FoldState, frozen=True, kw_only=True):
    """A run. `status` is started, completed, halted, out_of_budget or missing. None means unknown."""

    run: str = ""
    sweep: str = ""
    group: str = ""
    template: str = ""
    env_seed: int = 0
    sibling_index: int = 0
    candidate: str | None = None
    environment: str = ""
    instruction: str = ""
    artifact: str = ""
    memory: str = ""
    executor: str = ""
    plan: str = ""
    applied: tuple[str, ...] = ()
    evaluation: str | None = None
    benchmark: str | None = None
    arm: str | None = None
    repeat: int | None = None
    is_sealed: bool | None = None
    fingerprint: str | None = None
    status: str = "started"
    steps: int = 0
    mutations: int = 0
    actions: int | None = None
    wall_microseconds: int | None = None
    missing_reason: str | None = None

    @property
    def is_ended(self) -> bool:
        """True if the run is finished or missing, so it will not be resumed."""
        return self.status != "started"


def token_of_actor(actor: str) -> str:
    """Name of the token whose holder began a run from outside, by the actor of its first event; empty for our own."""
    channel, _, token = actor.partition(":")
    return token if channel in {"api", "otel", "proxy"} else ""


def is_agent(executor: str | None) -> bool:
    """True for the recorded name of an agent from outside."""
    return executor is not None and executor.partition(":")[0] == AGENT


def is_advised(executor: str | None) -> bool:
    """True for the recorded name of an executor that is told memory in words."""
    return executor in ADVISED or is_agent(executor)


def recorded_artifact_name(artifact: dict[str, Any]) -> str:
    """Name of an artifact, given in the form its event has."""
    return events.artifact_name(artifact["weights"], artifact["memory"]["upto"])


def _start(row: EventRow) -> RunState:
    arm = row.maybe_record("arm") or {}
    return RunState(
        run=row.text("run"),
        sweep=row.text("spec.sweep"),
        group=row.text("spec.group_id"),
        template=row.text("spec.template"),
        env_seed=row.number("spec.env_seed"),
        sibling_index=row.number("spec.sibling_index"),
        candidate=row.maybe_text("spec.candidate"),
        environment=row.text("task_spec.environment"),
        instruction=row.text("task_spec.instruction"),
        artifact=recorded_artifact_name(row.record("artifact")),
        memory=row.text("artifact.memory.digest"),
        executor=row.text("executor"),
        plan=row.text("plan"),
        applied=tuple(item["piece"] for item in row.records("applied")),
        evaluation=arm.get("evaluation"),
        benchmark=arm.get("benchmark"),
        arm=arm.get("arm"),
        repeat=arm.get("repeat"),
        is_sealed=arm.get("is_sealed"),
    )


def _fold(state: RunState, row: EventRow) -> RunState:
    match row.type:
        case "RunStarted":
            return _start(row)
        case "InstanceReset":
            return replace(state, fingerprint=row.text("fingerprint"))
        case "StepTaken":
            return replace(state, steps=state.steps + 1)
        case "RunFinished":
            return replace(
                state,
                status=row.text("status"),
                mutations=row.number("mutations"),
                actions=row.maybe_number("usage.actions"),
                wall_microseconds=row.maybe_number("usage.wall_microseconds"),
            )
        case _:
            return replace(state, run=row.text("run"), status="missing", missing_reason=row.text("reason"))


RUNS = Fold(
    name="runs",
    version=2,
    reads={
        "RunStarted": (
            "run",
            "spec.sweep",
            "spec.group_id",
            "spec.template",
            "spec.env_seed",
            "spec.sibling_index",
            "spec.candidate",
            "task_spec.environment",
            "task_spec.instruction",
            "artifact",
            "artifact.memory.digest",
            "executor",
            "plan",
            "applied",
            "arm",
        ),
        "InstanceReset": ("run", "fingerprint"),
        "StepTaken": ("run",),
        "RunFinished": ("run", "status", "mutations", "usage.actions", "usage.wall_microseconds"),
        "RunMissing": ("run", "reason"),
    },
    initial=RunState(),
    key=lambda row: row.text("run"),
    fold=_fold,
    stream_of=lambda key: f"run/{key}",
)
