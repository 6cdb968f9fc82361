"""Runs as the runner records them, small enough to read: events and blobs for tests that need a log with runs in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi.testclient import TestClient

from api.app import create_app
from api.evaluations.benchmarks import without_plans
from api.house import House
from api.tokens import issue
from eventlog.blobs import Blob, BlobStore
from eventlog.chain import canonical
from eventlog.events import (
    AnyEvent,
    ArmRun,
    Artifact,
    BenchmarkFrozen,
    BenchmarkTask,
    InstanceReset,
    Memory,
    RewardGraded,
    RewardTerms,
    RunFinished,
    RunMissing,
    RunStarted,
    Spec,
    Step,
    StepOutcome,
    StepTaken,
    SweepPlanned,
    TaskSpec,
    Template,
    Usage,
)
from eventlog.store import Append, EventStore

NO_DIGEST = "0" * 64
ENVIRONMENT = "marketplace"
BASE = Artifact(weights="base", memory=Memory(upto=0, folds={}, without=(), digest=NO_DIGEST))
PAGES = ("Boats\n\n  for   sale", "Thank you")
PLAN = (
    Step(type="navigate", intent="open the boats", url="/boats"),
    Step(type="fill_field", intent="say a name", label="Name", value="Ada"),
    Step(type="submit", intent="send", label="Contact"),
)


@dataclass(frozen=True)
class SampleRun:
    """One run to record. `score` None: not graded. `outcome` is the last step's."""

    run: str
    group: str = "g1"
    template: str = "contact"
    env_seed: int = 7
    environment: str = ENVIRONMENT
    score: int | None = 1_000_000
    value: int | None = 990_000
    outcome: StepOutcome = "ok"
    sweep: str = "s1"
    evaluation: str | None = None
    fingerprint: str = NO_DIGEST
    is_missing: bool = False
    is_ended: bool = True
    repeat: int = 0

    def events(self, plan: Blob, pages: tuple[Blob, ...]) -> tuple[AnyEvent, ...]:
        """The whole stream of the run."""
        reset = InstanceReset(run=self.run, group=self.group, seed=self.env_seed, fingerprint=self.fingerprint)
        if self.is_missing:
            lost = RunMissing(run=self.run, group=self.group, reason="environment_down", detail="no answer")
            return self.started(plan.digest), lost
        if not self.is_ended:
            return self.started(plan.digest), reset
        taken = self._steps(pages)
        graded = () if self.score is None else (self._graded(self.score),)
        return self.started(plan.digest), reset, *taken, self._finished(), *graded

    def started(self, plan: str) -> RunStarted:
        """The first event."""
        arm = None
        if self.evaluation is not None:
            arm = ArmRun(
                evaluation=self.evaluation, benchmark="second", arm="champion", repeat=self.repeat, is_sealed=True
            )
        return RunStarted(
            run=self.run,
            spec=Spec(
                spec_id=self.run,
                template=self.template,
                env_seed=self.env_seed,
                group_id=self.group,
                sibling_index=0,
                sweep=self.sweep,
            ),
            task_spec=TaskSpec(
                task_spec_id=self.template,
                instruction="Contact the seller.",
                task_class="contact",
                environment=self.environment,
                max_steps=40,
                success_conditions=(),
            ),
            artifact=BASE,
            executor="plan",
            plan=plan,
            applied=(),
            arm=arm,
        )

    def _steps(self, pages: tuple[Blob, ...]) -> tuple[StepTaken, ...]:
        seen = (pages[0].digest, None, pages[1].digest)
        return tuple(
            StepTaken(
                run=self.run,
                index=index,
                action=step.type,
                intent=step.intent,
                outcome=self.outcome if index == len(PLAN) - 1 else "ok",
                http_status=None if page is None else 200,
                observation=page,
            )
            for index, (step, page) in enumerate(zip(PLAN, seen, strict=True))
        )

    def _finished(self) -> RunFinished:
        usage = Usage(actions=len(PLAN), wall_microseconds=1, input_tokens=0, output_tokens=0)
        return RunFinished(
            run=self.run,
            status="completed" if self.outcome == "ok" else "halted",
            fingerprint=NO_DIGEST,
            end_state=NO_DIGEST,
            mutations=1,
            usage=usage,
        )

    def _graded(self, score: int) -> RewardGraded:
        return RewardGraded(
            run=self.run,
            group=self.group,
            channel="oracle",
            version="1",
            score=score,
            passed=score == 1_000_000,
            reasons=(),
            terms=RewardTerms(score=score, lambda_per_dollar=0, penalty=0),
            prices=1,
            cost=None if self.value is None else 10_000,
            value=self.value,
        )


def template(template_id: str = "contact", oracle_task_id: str = "contact-seller") -> Template:
    """A template of the sample's plan."""
    return Template(
        template_id=template_id,
        cluster="contact",
        oracle_task_id=oracle_task_id,
        instruction="Contact the seller.",
        plan_steps=PLAN,
    )


def planned(*templates: Template) -> SweepPlanned:
    """A sweep of these templates; its specs do not matter here."""
    return SweepPlanned(sweep="s1", environment=ENVIRONMENT, templates=templates, specs=(), artifact=BASE, rng_seed=0)


def frozen(template_: Template, *seeds: int) -> BenchmarkFrozen:
    """A benchmark of one template at these seeds."""
    tasks = tuple(BenchmarkTask(template=template_.template_id, env_seed=seed, is_sealed=True) for seed in seeds)
    return BenchmarkFrozen(
        benchmark="b",
        environment=ENVIRONMENT,
        templates=without_plans([template_]),
        tasks=tasks,
        repeats=1,
        alpha=50_000,
        challengers=10,
        successor_of=None,
        digest=NO_DIGEST,
    )


def record(store: EventStore, blobs: BlobStore, *runs: SampleRun) -> None:
    """Append each run to its stream, its blobs before it."""
    plan = Blob("application/json", canonical([step.model_dump(mode="json") for step in PLAN]))
    pages = tuple(Blob("text/plain; charset=utf-8", page.encode()) for page in PAGES)
    blobs.put([plan, *pages])
    store.append([Append(f"run/{run.run}", run.events(plan, pages), "runner") for run in runs])


def append(store: EventStore, stream: str, *events: AnyEvent) -> None:
    """Append events to one stream."""
    store.append([Append(stream, events, "test")])


def client_of(house: House) -> TestClient:
    """A client with a token called tester. Unhandled errors come back as answers."""
    token = issue(house.store, "tester", "test", "operate")
    return TestClient(create_app(house), headers={"Authorization": f"Bearer {token}"}, raise_server_exceptions=False)


def started_json(run: str = "ext-1") -> dict[str, Any]:
    """RunStarted of an agent that is not ours, as a caller over HTTP writes it."""
    return SampleRun(run, group=run, sweep="ext-s").started(NO_DIGEST).model_dump(mode="json")
