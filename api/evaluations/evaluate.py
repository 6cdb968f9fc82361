"""Runs an evaluation: opens it, plays both arms, judges them, and records the verdict."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import ExitStack
from datetime import UTC, datetime

from agents.envs.environment import Environment
from agents.executors.by_weights import refuse_unserved
from agents.executors.executor import Executor
from agents.learning.memory import build_memory_artifact, content_reader, pieces_from
from agents.learning.memory_effect import is_same_for
from agents.rollouts.arms import plan_suite
from agents.rollouts.play import PLAN
from eventlog.blobs import Blob
from eventlog.events import Artifact, BenchmarkFrozen, Decision, PieceKind, Rules, TaskPlan, Template, Verdict
from eventlog.store import Position
from gate.alpha import next_alpha
from gate.errors import AlreadyOpened, ChampionMoved
from gate.judge import judge
from gate.promote import STREAM, find_opening, open_evaluation, settle_evaluation
from projections.alpha import ALPHA
from projections.benchmarks import BENCHMARKS
from projections.engine.views import Views
from projections.runs import PLANLESS
from projections.verdicts import VERDICTS, VerdictState

from ..course import CONTROLLER, Course
from ..errors import OtherExecutor
from ..house import House
from ..queries.champion import present_champion
from ..queries.facts import require
from ..reporter import Reporter
from ..sweeps.executors import describe_executor, options_of, recorded_as
from ..sweeps.jobs import pieces_of
from ..sweeps.models import agent_model
from .arms import Sides, sides
from .play import Match, play_arms


def challenge(
    house: House,
    benchmark: BenchmarkFrozen,
    challenger: Artifact,
    rules: Rules,
    executor: Executor = PLAN,
    actor: str = CONTROLLER,
) -> str:
    """Open an evaluation of a challenger against the current champion and return its name.

    An open evaluation with the same arguments is resumed, because its alpha is spent. Raises BenchmarkExhausted,
    UnknownTemplate, NotServed, without opening an evaluation.
    """
    name, _ = recorded_as(executor)
    present = present_champion(house.views()).pointed_artifact()
    refuse_unserved(executor, (present, challenger))
    under_way = _under_way(house.views(), benchmark, (present, challenger), rules, name)
    if under_way is not None:
        return under_way
    next_alpha(require(house.views().get(ALPHA, benchmark.benchmark)))  # fail before a model writes plans
    suite = () if executor.name in PLANLESS else _suite(house, benchmark)
    while True:
        evaluation = f"eval-{len(house.views().find(VERDICTS)) + 1}"
        try:
            open_evaluation(
                house.store, evaluation, benchmark, present, challenger, rules, actor, executor=name, suite=suite
            )
        except AlreadyOpened:
            continue  # the name was taken concurrently, on another benchmark
        return evaluation


def _under_way(
    views: Views, benchmark: BenchmarkFrozen, artifacts: tuple[Artifact, Artifact], rules: Rules, executor: str | None
) -> str | None:
    """Name of an open evaluation with the same arguments and no verdict, if any."""
    wanted = (benchmark.digest, artifacts, rules, executor)
    for key, state in views.find(VERDICTS).items():
        found = (state.benchmark_digest, state.artifacts(), state.opening_rules(), state.executor)
        if state.decision is None and found == wanted:
            return key
    return None


def _suite(house: House, benchmark: BenchmarkFrozen) -> tuple[TaskPlan, ...]:
    with ExitStack() as stack:
        model = None if house.settings.model is None else stack.enter_context(agent_model(house.settings))
        return plan_suite(benchmark.templates, benchmark.environment, house.store, house.blobs, model)


def challenger_now(house: House, views: Views, kinds: Collection[PieceKind]) -> tuple[Artifact, Blob]:
    """The champion's weights with the current memory of these kinds."""
    weights = present_champion(views).pointed_artifact().weights
    return build_memory_artifact(views, weights, now=datetime.now(UTC), kinds=kinds, embeddings=house.embeddings)


def concerns(
    house: House, views: Views, kinds: Collection[PieceKind], site: str, templates: Iterable[Template]
) -> bool:
    """True if the current memory would change any plan or prompt of these tasks, compared to the champion's memory.

    Raises BlobMissing, and as House.embeddings_of.
    """
    _, content = challenger_now(house, views, kinds)
    today = pieces_from(content.body, content_reader(house.blobs), house.embeddings)
    return not is_same_for(templates, site, pieces_of(house, present_champion(views).pointed_artifact()), today)


def play_and_settle(
    house: House,
    client: Environment,
    evaluation: str,
    course: Course,
    reporter: Reporter,
    executor: Executor = PLAN,
) -> str:
    """Play the pending runs of both arms, judge them, append the verdict, and return a message with the decision.

    The verdict is void if the judged champion is no longer champion. Raises OtherExecutor if the evaluation was opened
    for another executor.
    """
    _refuse_other(house, evaluation, executor)
    state = require(house.views().get(VERDICTS, evaluation))
    play_arms(Match(house, client, state, _benchmark(house.views(), state), course, reporter, executor))
    return f"{evaluation} was decided: {_settle(house, evaluation)}"


def _refuse_other(house: House, evaluation: str, executor: Executor) -> None:
    """Raise OtherExecutor if the evaluation was opened for another executor: one executor must play both arms."""
    opened, (name, _) = find_opening(house.store, evaluation), recorded_as(executor)
    if opened.executor != name:
        options = "--loop slow" if opened.executor in PLANLESS else options_of(opened)
        raise OtherExecutor(
            what=f"The evaluation {evaluation}",
            expected=describe_executor(opened.executor),
            actual=describe_executor(name),
            way_out=f"Run `flywheel run {options}`.",
        )


def _settle(house: House, evaluation: str) -> Decision:
    """Judge and append the verdict; retry if the champion's stream grew concurrently."""
    while True:
        version = sum(1 for _ in house.store.read(stream=STREAM))
        try:
            return settle_evaluation(
                house.store, evaluation, judge_again(house, evaluation), version, CONTROLLER
            ).decision
        except ChampionMoved:
            continue


def judge_again(house: House, evaluation: str) -> Verdict:
    """Compute the verdict at the position just before it was recorded (else at the head). Deterministic to the byte.

    The verdict is void if the judged champion is not the champion at that position.
    """
    reached = [
        c.since
        for c in house.views().history(VERDICTS, evaluation)
        if c.state is not None and c.state.decision is not None
    ]
    views = house.views(Position(reached[0] - 1) if reached else None)
    state = require(views.get(VERDICTS, evaluation))
    verdict = of_the_arms(views, state)
    present, judged_one = present_champion(views), verdict.champion.artifact
    if present.pointed_artifact() != judged_one:
        reason = f"{judged_one} was judged, but {present.name} is champion since position {present.since}"
        return verdict.model_copy(update={"decision": "void", "reasons": (reason,)})
    return verdict


def of_the_arms(views: Views, state: VerdictState) -> Verdict:
    """Judge the arms of an evaluation at the views' position, without a check of the current champion."""
    return judge(*_compare(views, state))


def _compare(views: Views, state: VerdictState) -> Sides:
    return sides(views, state, _benchmark(views, state))


def _benchmark(views: Views, state: VerdictState) -> BenchmarkFrozen:
    return require(views.get(BENCHMARKS, state.benchmark)).frozen_event()
