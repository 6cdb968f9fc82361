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
from agents.suites.in_log import VersionedSuite
from eventlog.blobs import Blob
from eventlog.events import (
    Artifact,
    BenchmarkFrozen,
    Decision,
    PieceKind,
    Rules,
    TaskPlan,
    Template,
    Verdict,
)
from eventlog.store import Position
from gate.alpha import next_alpha
from gate.errors import AlreadyOpened, AlreadySucceeded, ChampionMoved
from gate.judge import judge
from gate.jurisdiction import MissingVerdict, describe_missing_verdicts
from gate.promote import STREAM, open_evaluation, settle_evaluation
from gate.renewal import newest_successor
from gate.units import order_anew
from projections.alpha import ALPHA
from projections.benchmarks import BENCHMARKS
from projections.engine.views import PostgresViews, Views
from projections.evaluations import EVALUATIONS
from projections.runs import PLANLESS
from projections.verdicts import VERDICTS, VerdictState

from ..course import CONTROLLER, Course
from ..environments.suites import pinned_operations, suite_learned_on, suite_of_log
from ..house import House
from ..queries.benchmarks import refuse_small_benchmark
from ..queries.champion import present_champion
from ..queries.facts import require
from ..reporter import Reporter
from ..sweeps.executors import audience_of, recorded_as
from ..sweeps.jobs import pieces_of
from ..sweeps.models import agent_model
from .arms import Sides, sides
from .jurisdiction import refuse_elsewhere, scope_to_site, verdicts_waited_for
from .play import Match, play_arms
from .players import refuse_other_player


def challenge(
    house: House,
    benchmark: BenchmarkFrozen,
    challenger: Artifact,
    rules: Rules,
    executor: Executor = PLAN,
    actor: str = CONTROLLER,
    suite: VersionedSuite | None = None,
) -> str:
    """Open an evaluation of a challenger against the current champion and return its name.

    Both arms play the plans of the `suite` (None: the version that the last sweep was played from).

    Each evaluation has an order of instances of its own, so that the one that looks see first is another one each time.
    An open evaluation with the same arguments is resumed, because its alpha is spent. The figures of a benchmark with a
    successor are told, so it judges nobody. Raises AlreadySucceeded, TooFewUnits, BenchmarkExhausted,
    UnknownTemplate, NotServed, ActsElsewhere, without opening an evaluation.
    """
    name, model = recorded_as(executor)
    present = present_champion(house.views()).pointed_artifact()
    refuse_unserved(executor, (present, challenger))
    under_way = _under_way(house.views(), benchmark, (present, challenger), rules, (name, model))
    if under_way is not None:
        return under_way
    newest = newest_successor(house.views().find(BENCHMARKS), benchmark.benchmark)
    if newest != benchmark.benchmark:
        raise AlreadySucceeded(benchmark=benchmark.benchmark, actual=newest)
    refuse_small_benchmark(benchmark, rules)
    _next_challenge(house.views(), benchmark)  # fail before a model writes plans
    refuse_elsewhere(house, house.views(), benchmark.environment, present, challenger)
    pinned = _suite_to_pin(house, benchmark, suite)
    plans = () if executor.name in PLANLESS else _plans(house, benchmark, pinned)
    version = str(pinned) if pinned is not None and pinned.version else None
    while True:
        evaluation = f"eval-{len(house.views().find(VERDICTS)) + 1}"
        try:
            open_evaluation(
                house.store,
                evaluation,
                benchmark,
                present,
                challenger,
                order_anew(rules, benchmark, _next_challenge(house.views(), benchmark)),
                actor,
                executor=name,
                suite=plans,
                suite_version=version,
                model=model,
            )
        except AlreadyOpened:
            continue  # the name was taken concurrently, on another benchmark
        return evaluation


def _under_way(
    views: Views,
    benchmark: BenchmarkFrozen,
    artifacts: tuple[Artifact, Artifact],
    rules: Rules,
    player: tuple[str | None, str | None],
) -> str | None:
    """Name of an open evaluation with the same arguments and no verdict, if any; `player` is executor and model.

    Where each challenger has an order of its own, the recorded seed is that order's, and it is not compared.
    """
    wanted = (benchmark.digest, artifacts, order_anew(rules, benchmark, 0), player[0])
    known = views.get(EVALUATIONS, benchmark.digest)
    models = {} if known is None else {each.evaluation: each.model for each in known.evaluations}
    for key, state in views.find(VERDICTS).items():
        opened_under = order_anew(state.opening_rules(), benchmark, 0)
        found = (state.benchmark_digest, state.artifacts(), opened_under, state.executor)
        if state.decision is None and found == wanted and models.get(key) in {None, player[1]}:
            return key
    return None


def _next_challenge(views: Views, benchmark: BenchmarkFrozen) -> int:
    """The number of the next challenger of a benchmark. Raises BenchmarkExhausted."""
    return next_alpha(require(views.get(ALPHA, benchmark.benchmark))).challenge


def _suite_to_pin(house: House, benchmark: BenchmarkFrozen, suite: VersionedSuite | None) -> VersionedSuite | None:
    site = benchmark.environment
    return suite or suite_learned_on(house, site, CONTROLLER) or suite_of_log(house, site)


def _plans(house: House, benchmark: BenchmarkFrozen, suite: VersionedSuite | None) -> tuple[TaskPlan, ...]:
    content = None if suite is None else suite.suite
    with ExitStack() as stack:
        model = None if house.settings.model is None else stack.enter_context(agent_model(house.settings))
        return plan_suite(benchmark.templates, benchmark.environment, house.store, house.blobs, model, content)


def challenger_now(house: House, views: Views, kinds: Collection[PieceKind]) -> tuple[Artifact, Blob]:
    """The champion's weights with the current memory of these kinds."""
    weights = present_champion(views).pointed_artifact().weights
    return build_memory_artifact(views, weights, now=datetime.now(UTC), kinds=kinds, embeddings=house.embeddings)


def challenger_on(house: House, views: Views, kinds: Collection[PieceKind], site: str) -> tuple[Artifact, Blob]:
    """The challenger before a site's benchmark: the champion with what the current memory has learned for that site.

    Raises BlobMissing, and as House.embeddings_of.
    """
    return scope_to_site(house, views, site, *challenger_now(house, views, kinds))


def concerns(
    house: House,
    views: Views,
    kinds: Collection[PieceKind],
    site: str,
    templates: Iterable[Template],
    executor: Executor = PLAN,
) -> bool:
    """True if the current memory would change what an executor's runs of these tasks do, compared to the champion's.

    Raises BlobMissing, and as House.embeddings_of.
    """
    _, content = challenger_now(house, views, kinds)
    today = pieces_from(content.body, content_reader(house.blobs), house.embeddings)
    present = pieces_of(house, present_champion(views).pointed_artifact())
    return not is_same_for(templates, site, present, today, audience_of(executor))


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
    for another executor, and what refuse_unserved raises: the settings may be others than when it was opened.
    """
    opened = refuse_other_player(house, evaluation, executor)
    refuse_unserved(executor, (opened.champion, opened.challenger))
    state = require(house.views().get(VERDICTS, evaluation))
    benchmark = _benchmark(house.views(), state)
    operations = pinned_operations(house, benchmark.environment, opened.suite_version, Position(state.opened_since))
    play_arms(Match(house, client, state, benchmark, course, reporter, executor, operations))
    decision, waits = _settle(house, evaluation)
    told = f"; the champion waits for a verdict of {describe_missing_verdicts(waits)}" if waits else ""
    return f"{evaluation} was decided: {decision}{told}"


def _settle(house: House, evaluation: str) -> tuple[Decision, tuple[MissingVerdict, ...]]:
    """Judge and append the verdict; retry if the champion's stream grew concurrently.

    Returns the decision, and the verdicts of other sites that the pointer waits for.
    """
    while True:
        version = sum(1 for _ in house.store.read(stream=STREAM))
        views = _before_verdict(house, evaluation)
        verdict = _judge_at(views, evaluation)
        waits: tuple[MissingVerdict, ...] = ()
        if verdict.decision == "promote":
            waits = verdicts_waited_for(house, views, require(views.get(VERDICTS, evaluation)))
        try:
            settled = settle_evaluation(house.store, evaluation, verdict, version, CONTROLLER, points=not waits)
        except ChampionMoved:
            continue
        return settled.decision, waits


def _before_verdict(house: House, evaluation: str) -> PostgresViews:
    """Views just before an evaluation's verdict was recorded, else at the head."""
    reached = [
        c.since
        for c in house.views().history(VERDICTS, evaluation)
        if c.state is not None and c.state.decision is not None
    ]
    return house.views(Position(reached[0] - 1) if reached else None)


def judge_again(house: House, evaluation: str) -> Verdict:
    """Compute the verdict at the position just before it was recorded (else at the head). Deterministic to the byte.

    The verdict is void if the judged champion is not the champion at that position.
    """
    return _judge_at(_before_verdict(house, evaluation), evaluation)


def _judge_at(views: Views, evaluation: str) -> Verdict:
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
