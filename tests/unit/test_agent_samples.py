"""Builders that the tests of agents share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import httpx2

from agents.envs.clients.session import Session
from agents.learning.memory import forget_everything
from agents.plans import Piece, anchor_of, rewrite_id
from agents.rollouts.trials import TrialPiece
from eventlog.events import (
    Anchor,
    AnyEvent,
    Artifact,
    PromotionRule,
    ReplaceUrl,
    RewriteLost,
    RewriteProposed,
    RewriteWon,
    RunFinished,
    RunMissing,
    RunStarted,
    SeedsRule,
    Spec,
    Step,
    TaskSpec,
    Template,
    Trials,
    Usage,
)
from eventlog.memory import MemoryStore
from eventlog.store import Append, EventStore, Position
from projections.costs import PriceBook
from projections.engine.views import ReplayedViews

ZERO = "0" * 64
ROOT = "http://site.test/i/abc/"
OPEN = Step(type="navigate", intent="open the boats page", url="/boats")
EMPTY = forget_everything("base")[0]
BOOK = PriceBook(
    version=1, per_action=200, per_second=30, per_thousand_input_tokens=3_000, per_thousand_output_tokens=15_000
)
Answer = Callable[[httpx2.Request], httpx2.Response]


def a_store() -> MemoryStore:
    return MemoryStore(lambda: datetime(2026, 11, 20, tzinfo=UTC))


def add(store: EventStore, stream: str, *events: AnyEvent) -> Position:
    store.append([Append(stream, events, "test")])
    return store.head()


def views(store: EventStore) -> ReplayedViews:
    return ReplayedViews(store, store.head())


def page(body: str, status: int = 200) -> httpx2.Response:
    return httpx2.Response(status, html=f"<html><body>{body}</body></html>")


EVERY_GROUP = Trials(treated_micro=1_000_000, withheld_micro=0)


def tryables(*names: str, controls: int = 0, step: Step = OPEN) -> tuple[TrialPiece, ...]:
    """Pieces that open another address at a step, by name."""
    return tuple(
        TrialPiece(Piece(name, anchor_of(step), ReplaceUrl(url=f"/{name}"), wins=0, confidence=0), controls)
        for name in names
    )


def session(answers: Mapping[str, httpx2.Response | str] | Answer) -> Session:
    """A session with a site that answers by path, from the instance's root; everything else is not found."""
    if callable(answers):
        return Session(ROOT, transport=httpx2.MockTransport(answers))

    def answer(request: httpx2.Request) -> httpx2.Response:
        found = answers.get("/" + str(request.url).removeprefix(ROOT).partition("?")[0])
        return page("Page not found", 404) if found is None else page(found) if isinstance(found, str) else found

    return Session(ROOT, transport=httpx2.MockTransport(answer))


def piece(url: str, step: Step = OPEN, *, wins: int = 0, confidence: int = 0) -> Piece:
    """A piece of memory that opens another address."""
    change = ReplaceUrl(url=url)
    return Piece(rewrite_id(anchor_of(step), change), anchor_of(step), change, wins, confidence)


def template(name: str = "t1", steps: tuple[Step, ...] = (OPEN,)) -> Template:
    return Template(
        template_id=name, cluster="c", oracle_task_id=f"oracle-{name}", instruction="do it", plan_steps=steps
    )


def spec(run: str, *, sweep: str = "s1", candidate: str | None = None, seed: int = 0) -> Spec:
    return Spec(
        spec_id=f"{sweep}__{run}",
        template="t1",
        env_seed=seed,
        group_id=f"{sweep}__g",
        sibling_index=0,
        sweep=sweep,
        candidate=candidate,
    )


def started(planned: Spec, artifact: Artifact = EMPTY) -> RunStarted:
    task = TaskSpec(
        task_spec_id="ts",
        instruction="do it",
        task_class="c",
        environment="marketplace",
        max_steps=4,
        success_conditions=(),
    )
    return RunStarted(
        run=planned.spec_id,
        spec=planned,
        task_spec=task,
        artifact=artifact,
        executor="plan",
        plan=ZERO,
        applied=(),
        arm=None,
    )


def finished(planned: Spec) -> RunFinished:
    usage = Usage(actions=1, wall_microseconds=1, input_tokens=0, output_tokens=0)
    return RunFinished(
        run=planned.spec_id, status="completed", fingerprint=ZERO, end_state=ZERO, mutations=0, usage=usage
    )


def missing(planned: Spec) -> RunMissing:
    return RunMissing(run=planned.spec_id, group=planned.group_id, reason="environment_down", detail="gone")


def propose(
    store: EventStore, rewrite: str, anchor: Anchor | None = None, rule: PromotionRule | None = None
) -> Position:
    event = RewriteProposed(
        rewrite=rewrite,
        anchor=anchor or anchor_of(OPEN),
        change=ReplaceUrl(url=f"/{rewrite}"),
        rule=rule or SeedsRule(),
        run="run",
        source="page_links",
        confidence=500_000,
    )
    return add(store, f"rewrite/{rewrite}", event)


def decide_rewrite(store: EventStore, rewrite: str, *outcomes: bool) -> Position:
    """Wins and losses of a rewrite, one after another."""
    for index, won in enumerate(outcomes):
        kind = RewriteWon if won else RewriteLost
        event = kind(rewrite=rewrite, run=f"{rewrite}-{index}", control_runs=(), control_successes=0)
        add(store, f"rewrite/{rewrite}", event)
    return store.head()
