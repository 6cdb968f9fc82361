"""An evaluation from opening to verdict: who plays what, then judgement, then the champion's stream."""

from __future__ import annotations

from collections.abc import Iterator

from agents.envs.environment import Environment
from agents.executors.executor import Executor
from agents.rollouts.play import PLAN, Job
from eventlog.events import Artifact, BenchmarkFrozen, Decision, EvaluationOpened, Rules, Verdict
from eventlog.store import Position
from gate.arms import arm
from gate.benchmark import specs
from gate.errors import ChampionMoved
from gate.judge import judge
from gate.promote import STREAM, open_evaluation, settle
from projections.benchmarks import BENCHMARKS
from projections.rewards import REWARDS
from projections.runs import RUNS
from projections.verdicts import VERDICTS, VerdictState
from projections.views import PostgresViews, Views

from .decide import ACTOR, Course, benchmark_name, champion, ended, known
from .errors import OtherExecutor
from .executing import in_words, options_of, recorded_as
from .house import House
from .playing import Reporter, pieces_of, play_jobs


def challenge(house: House, site: str, challenger: Artifact, rules: Rules, executor: Executor = PLAN) -> str:
    """Open an evaluation of a challenger against the present champion on a site's benchmark; its name."""
    name, _ = recorded_as(executor)
    views = house.views()
    benchmark = views.find(BENCHMARKS)[benchmark_name(site)].frozen()
    evaluation = f"eval-{len(views.find(VERDICTS)) + 1}"
    present = champion(views).pointed()
    open_evaluation(house.store, evaluation, benchmark, present, challenger, rules, ACTOR, executor=name)
    return evaluation


def play_and_settle(
    house: House,
    client: Environment,
    evaluation: str,
    course: Course,
    reporter: Reporter,
    executor: Executor = PLAN,
) -> str:
    """Play what is left of both arms, judge, and append the verdict; says how it ended.

    Where the champion was moved meanwhile the verdict is void: what was judged is no longer the champion. Raises
    OtherExecutor where it was opened for another executor.
    """
    _refuse_other(house, evaluation, executor)
    views = house.views()
    state = known(views.get(VERDICTS, evaluation))
    jobs = tuple(_jobs(house, views, state))
    play_jobs(house, client, f"{evaluation}: both arms on {state.benchmark}", jobs, course, reporter, executor)
    return f"{evaluation} was decided: {_settled(house, evaluation)}"


def _refuse_other(house: House, evaluation: str, executor: Executor) -> None:
    """Both arms are played by one executor, whoever goes on with them."""
    for recorded in house.store.read(stream=f"evaluation/{evaluation}", types=["EvaluationOpened"]):
        opened, (name, _) = recorded.event, recorded_as(executor)
        if isinstance(opened, EvaluationOpened) and opened.executor != name:
            raise OtherExecutor(
                what=f"The evaluation {evaluation}",
                expected=in_words(opened.executor),
                actual=in_words(name),
                way_out=f"Say `flywheel run {options_of(opened)}`.",
            )


def _settled(house: House, evaluation: str) -> Decision:
    """Judge and append; again where the champion's stream grew in between, for that may have moved the champion."""
    while True:
        version = sum(1 for _ in house.store.read(stream=STREAM))
        try:
            return settle(house.store, evaluation, judged(house, evaluation), version, ACTOR).decision
        except ChampionMoved:
            continue


def judged(house: House, evaluation: str) -> Verdict:
    """The verdict as the log carried it just before it was reached (now, if it was not): the same bytes whenever asked.

    It is void where the one who was judged is not the champion.
    """
    reached = [
        c.since
        for c in house.views().history(VERDICTS, evaluation)
        if c.state is not None and c.state.decision is not None
    ]
    views = house.views(Position(reached[0] - 1) if reached else None)
    state = known(views.get(VERDICTS, evaluation))
    verdict = of_the_arms(views, state)
    present, judged_one = champion(views), verdict.champion.artifact
    if present.pointed() != judged_one:
        reason = f"{judged_one} was judged, but {present.name} is champion since position {present.since}"
        return verdict.model_copy(update={"decision": "void", "reasons": (reason,)})
    return verdict


def of_the_arms(views: Views, state: VerdictState) -> Verdict:
    """What the arms of an evaluation come to, as of the views' position, whoever is champion."""
    evaluation = state.evaluation
    benchmark = _benchmark(views, state)
    runs, rewards = views.find(RUNS, f"{evaluation}__"), views.find(REWARDS, f"{evaluation}__")
    present, challenger = state.artifacts()
    return judge(
        arm(benchmark, evaluation, "champion", present, runs, rewards),
        arm(benchmark, evaluation, "challenger", challenger, runs, rewards),
        benchmark,
        state.ruled(),
    )


def _jobs(house: House, views: PostgresViews, state: VerdictState) -> Iterator[Job]:
    present, challenger = state.artifacts()
    artifacts = {"champion": present, "challenger": challenger}
    pieces = {name: pieces_of(house, artifact) for name, artifact in artifacts.items()}
    benchmark = _benchmark(views, state)
    by_id = {template.template_id: template for template in benchmark.templates}
    done = ended(views, f"{state.evaluation}__")
    for place in specs(benchmark, state.evaluation):
        if place.spec.spec_id not in done:
            yield Job(
                spec=place.spec,
                template=by_id[place.spec.template],
                environment=benchmark.environment,
                artifact=artifacts[place.arm.arm],
                pieces=pieces[place.arm.arm],
                candidate=None,
                arm=place.arm,
                learns=False,
            )


def _benchmark(views: Views, state: VerdictState) -> BenchmarkFrozen:
    return known(views.get(BENCHMARKS, state.benchmark)).frozen()
