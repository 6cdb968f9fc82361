"""An evaluation from opening to verdict: who plays what, then judgement, then the champion's stream."""

from __future__ import annotations

from collections.abc import Iterator

from agents.envs.client import EnvClient
from agents.rollouts.play import Job
from eventlog.events import Artifact, BenchmarkFrozen, Rules, Verdict
from gate.arms import arm
from gate.benchmark import specs
from gate.errors import ChampionMoved
from gate.judge import judge
from gate.promote import open_evaluation, settle
from projections.benchmarks import BENCHMARKS
from projections.rewards import REWARDS
from projections.runs import RUNS
from projections.verdicts import VERDICTS, VerdictState
from projections.views import PostgresViews

from .decide import ACTOR, Course, benchmark_name, champion, ended, known
from .house import House
from .playing import Reporter, pieces_of, play_jobs


def challenge(house: House, site: str, challenger: Artifact, rules: Rules) -> str:
    """Open an evaluation of a challenger against the present champion on a site's benchmark; its name."""
    views = house.views()
    benchmark = views.find(BENCHMARKS)[benchmark_name(site)].frozen()
    evaluation = f"eval-{len(views.find(VERDICTS)) + 1}"
    open_evaluation(house.store, evaluation, benchmark, champion(views).pointed(), challenger, rules, ACTOR)
    return evaluation


def play_and_settle(house: House, client: EnvClient, evaluation: str, course: Course, reporter: Reporter) -> str:
    """Play what is left of both arms, judge, and append the verdict; says how it ended.

    Where the champion was moved meanwhile the verdict is void: what was judged is no longer the champion.
    """
    views = house.views()
    state = known(views.get(VERDICTS, evaluation))
    jobs = tuple(_jobs(house, views, state))
    play_jobs(house, client, f"{evaluation}: both arms on {state.benchmark}", jobs, course, reporter)
    verdict = judged(house, evaluation)
    try:
        settle(house.store, evaluation, verdict, _version_at(house, state), ACTOR)
    except ChampionMoved as moved:
        verdict = verdict.model_copy(update={"decision": "void", "reasons": (str(moved),)})
        settle(house.store, evaluation, verdict, _version(house), ACTOR)
    return f"{evaluation} was decided: {verdict.decision}"


def judged(house: House, evaluation: str) -> Verdict:
    """The verdict of the arms as the log carries them; the same bytes whenever it is asked for."""
    views = house.views()
    state = known(views.get(VERDICTS, evaluation))
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


def _benchmark(views: PostgresViews, state: VerdictState) -> BenchmarkFrozen:
    return known(views.get(BENCHMARKS, state.benchmark)).frozen()


def _version_at(house: House, state: VerdictState) -> int:
    """The version of the champion's stream when the evaluation was opened."""
    return sum(row.position <= state.opened_since for row in house.store.read(stream="champion"))


def _version(house: House) -> int:
    return sum(1 for _ in house.store.read(stream="champion"))
