"""Recorded runs to arms, and two arms to the pairs that can be compared. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from eventlog.events import ArmName, Artifact, BenchmarkFrozen, BenchmarkTask, Rules
from projections.contamination import contaminated_in_arms
from projections.rewards import RewardState
from projections.runs import RunState

from .errors import ForeignRun, ScoreOutOfRange, TwoResults

Place = tuple[str, int, int]
"""Template, environment seed, repeat: what one run of an arm fills."""

_WHOLE_SCORE = 1_000_000


@dataclass(frozen=True, slots=True)
class Result:
    """A graded run: score in millionths, cost in micro-dollars (None: unknown)."""

    score: int
    passed: bool
    cost: int | None


@dataclass(frozen=True, slots=True)
class Arm:
    """What one artifact did with a benchmark. A place is either in `sealed`, in `visible`, or in `missing`.

    `benchmark` is the digest of what was played. `confirming` are the fresh repeats of sealed instances that looked
    worse; they decide on regressions and nothing else. `contaminated` are the sealed runs that began from another state
    than the others of their instance; their places are missing.
    """

    name: ArmName
    artifact: Artifact
    evaluation: str
    benchmark: str
    sealed: Mapping[Place, Result]
    visible: Mapping[Place, Result]
    missing: frozenset[Place]
    confirming: Mapping[Place, Result] = field(default_factory=dict)
    contaminated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PairedInstance:
    """One sealed instance and its results of the same repeats in both arms, at least one."""

    template: str
    env_seed: int
    champion: tuple[Result, ...]
    challenger: tuple[Result, ...]

    @property
    def name(self) -> str:
        """As verdicts name it."""
        return f"{self.template}__seed{self.env_seed}"

    @property
    def deltas(self) -> tuple[int, ...]:
        """Challenger less champion, in millionths, repeat by repeat."""
        paired = zip(self.champion, self.challenger, strict=True)
        return tuple(challenger.score - champion.score for champion, challenger in paired)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Instances in order of template and seed; `missing` of `planned` (instance, repeat) pairs lack an arm.

    Of these the champion alone lacks `champion_missing`, the challenger alone `challenger_missing`.
    """

    instances: tuple[PairedInstance, ...]
    planned: int
    missing: int
    champion_missing: int = 0
    challenger_missing: int = 0


def arm(
    benchmark: BenchmarkFrozen,
    evaluation: str,
    name: ArmName,
    artifact: Artifact,
    runs: Mapping[str, RunState],
    rewards: Mapping[str, RewardState],
    rules: Rules,
) -> Arm:
    """The arm of an evaluation, from the runs of both arms and their rewards as of one position.

    A place without a run, or whose run has not ended, is missing, or was never graded, is missing. So is one whose run
    began from another state than the others of its instance: hence `runs` are those of both arms. A run that halted or
    ran out of budget and was graded is a result. Raises ForeignRun, TwoResults, ScoreOutOfRange.
    """
    contaminated = contaminated_in_arms(run for run in runs.values() if run.evaluation == evaluation)
    sealed_of = _places(benchmark)
    known = sealed_of | dict.fromkeys(_confirming_places(benchmark, rules), True)
    results: dict[Place, Result] = {}
    sources: dict[Place, str] = {}
    spoilt: list[str] = []
    for key in sorted(runs, key=str.encode):
        run, reward = runs[key], rewards.get(key)
        if (run.evaluation, run.arm) != (evaluation, name):
            continue
        place = _place(key, run, benchmark, artifact, known)
        if key in contaminated and known[place]:
            spoilt.append(key)
        if reward is None or not run.is_ended or run.status == "missing" or key in contaminated:
            continue
        if place in sources:
            both = f"{sources[place]}, {key}"
            raise TwoResults(arm=name, evaluation=evaluation, place=place, actual=both)
        sources[place], results[place] = key, _result(key, reward)
    return Arm(
        name=name,
        artifact=artifact,
        evaluation=evaluation,
        benchmark=benchmark.digest,
        sealed={place: result for place, result in results.items() if sealed_of.get(place) is True},
        visible={place: result for place, result in results.items() if sealed_of.get(place) is False},
        missing=frozenset(sealed_of.keys() - results.keys()),
        confirming={place: result for place, result in results.items() if place not in sealed_of},
        contaminated=tuple(spoilt),
    )


def _places(benchmark: BenchmarkFrozen) -> dict[Place, bool]:
    return {
        (task.template, task.env_seed, repeat): task.is_sealed
        for task in benchmark.tasks
        for repeat in range(benchmark.repeats)
    }


def confirming_repeats(benchmark: BenchmarkFrozen, rules: Rules) -> range:
    """The repeats by which a sealed instance that looked worse is played again; the bootstrap plays none."""
    count = 0 if rules.test == "bootstrap" else rules.confirm_repeats
    return range(benchmark.repeats, benchmark.repeats + count)


def _confirming_places(benchmark: BenchmarkFrozen, rules: Rules) -> Iterator[Place]:
    for task in benchmark.tasks:
        if task.is_sealed:
            yield from ((task.template, task.env_seed, repeat) for repeat in confirming_repeats(benchmark, rules))


def _place(
    key: str, run: RunState, benchmark: BenchmarkFrozen, artifact: Artifact, sealed_of: Mapping[Place, bool]
) -> Place:
    if run.environment != benchmark.environment:
        raise ForeignRun(run=key, what="environment", actual=run.environment, expected=benchmark.environment)
    place = (run.template, run.env_seed, -1 if run.repeat is None else run.repeat)
    if place not in sealed_of:
        raise ForeignRun(run=key, what="place", actual=place, expected=f"one of the benchmark {benchmark.benchmark}")
    if run.is_sealed != sealed_of[place]:
        raise ForeignRun(run=key, what="sealed flag", actual=run.is_sealed, expected=sealed_of[place])
    if run.artifact != str(artifact):
        raise ForeignRun(run=key, what="artifact", actual=run.artifact, expected=str(artifact))
    if run.memory != artifact.memory.digest:
        raise ForeignRun(run=key, what="memory", actual=run.memory, expected=artifact.memory.digest)
    if run.benchmark != benchmark.benchmark:
        raise ForeignRun(run=key, what="benchmark", actual=run.benchmark, expected=benchmark.benchmark)
    if run.candidate is not None:
        raise ForeignRun(run=key, what="candidate", actual=run.candidate, expected="the artifact alone")
    return place


def _result(key: str, reward: RewardState) -> Result:
    if not 0 <= reward.score <= _WHOLE_SCORE:
        raise ScoreOutOfRange(run=key, actual=reward.score, expected=_WHOLE_SCORE)
    return Result(reward.score, reward.passed, reward.cost)


def pairs(champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen, tasks: Iterable[BenchmarkTask]) -> Pairs:
    """The (instance, repeat) pairs of these tasks that both arms have; a repeat missing in one drops out of both."""
    found: list[PairedInstance] = []
    planned = kept = alone = other = 0
    for task in sorted(tasks, key=lambda task: (task.template.encode(), task.env_seed)):
        first = champion.sealed if task.is_sealed else champion.visible
        second = challenger.sealed if task.is_sealed else challenger.visible
        places = [(task.template, task.env_seed, repeat) for repeat in range(benchmark.repeats)]
        played = [(first.get(place), second.get(place)) for place in places]
        both = [(one, two) for one, two in played if one is not None and two is not None]
        planned, kept = planned + len(places), kept + len(both)
        if len(both) < len(places):
            alone += sum(one is None and two is not None for one, two in played)
            other += sum(one is not None and two is None for one, two in played)
        if both:
            results = tuple(one for one, _ in both), tuple(two for _, two in both)
            found.append(PairedInstance(task.template, task.env_seed, *results))
    return Pairs(tuple(found), planned, planned - kept, alone, other)
