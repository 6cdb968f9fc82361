"""Builds arms from recorded runs, and pairs the runs of two arms for comparison. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from eventlog.events import ArmName, Artifact, BenchmarkFrozen, BenchmarkTask, MissingCause, Rules
from projections.contamination import contaminated_in_arms
from projections.rewards import RewardState
from projections.runs import RunState

from .errors import ForeignRun, ScoreOutOfRange, TwoResults

Place = tuple[str, int, int]
"""Template, environment seed, repeat: the slot that one run of an arm fills."""

INTERRUPTED: Final[MissingCause] = "interrupted"
_WHOLE_SCORE = 1_000_000


@dataclass(frozen=True, slots=True)
class Result:
    """A graded run: score in millionths, cost in micro-dollars (None: unknown)."""

    score: int
    passed: bool
    cost: int | None


@dataclass(frozen=True, slots=True)
class Arm:
    """Results of one artifact on a benchmark. A place is either in `sealed`, in `visible`, or in `missing`.

    `benchmark` is the digest of the benchmark. `confirming` are the extra repeats of sealed instances that looked
    worse; they are used only to confirm regressions. `contaminated` are the sealed runs whose start state differs from
    the other runs of their instance; their places count as missing. `lost` counts the runs of each place that the
    platform lost, also where a later one has a result; `interrupted` counts those whose process ended before them.
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
    lost: Mapping[Place, int] = field(default_factory=dict)
    interrupted: Mapping[Place, int] = field(default_factory=dict)

    def result_at(self, place: Place) -> Result | None:
        """Result of a place of the benchmark or of the confirming repeats; None if there is none."""
        return self.sealed.get(place) or self.visible.get(place) or self.confirming.get(place)


@dataclass(frozen=True, slots=True)
class PairedInstance:
    """One instance with the results of its repeats that both arms have, at least one."""

    template: str
    env_seed: int
    champion: tuple[Result, ...]
    challenger: tuple[Result, ...]

    @property
    def name(self) -> str:
        """Name of the instance in verdicts."""
        return f"{self.template}__seed{self.env_seed}"

    @property
    def deltas(self) -> tuple[int, ...]:
        """Score difference of each repeat, challenger minus champion, in millionths."""
        paired = zip(self.champion, self.challenger, strict=True)
        return tuple(challenger.score - champion.score for champion, challenger in paired)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Instances ordered by template and seed; `missing` of the `planned` (instance, repeat) pairs lack a result.

    `champion_missing` of them lack only the champion's result, `challenger_missing` only the challenger's.
    `champion_lost` and `challenger_lost` count the runs that the platform lost, whether or not they were played again,
    `interrupted` those of both arms whose process ended before them.
    """

    instances: tuple[PairedInstance, ...]
    planned: int
    missing: int
    champion_missing: int = 0
    challenger_missing: int = 0
    champion_lost: int = 0
    challenger_lost: int = 0
    interrupted: tuple[int, int] = (0, 0)


def arm(
    benchmark: BenchmarkFrozen,
    evaluation: str,
    name: ArmName,
    artifact: Artifact,
    runs: Mapping[str, RunState],
    rewards: Mapping[str, RewardState],
    rules: Rules,
) -> Arm:
    """Build one arm of an evaluation from the runs of both arms and their rewards as of one position.

    A place is missing if its run does not exist, has not ended, has the status `missing`, was never graded, or started
    from a different state than the other runs of its instance (so `runs` must cover both arms). A graded run that
    halted or ran out of budget counts as a result. Raises ForeignRun, TwoResults, ScoreOutOfRange.
    """
    contaminated = contaminated_in_arms(run for run in runs.values() if run.evaluation == evaluation)
    sealed_of = _places(benchmark)
    known = sealed_of | dict.fromkeys(_confirming_places(benchmark, rules), True)
    results: dict[Place, Result] = {}
    sources: dict[Place, str] = {}
    lost, interrupted = Counter[Place](), Counter[Place]()
    spoilt: list[str] = []
    for key in sorted(runs, key=str.encode):
        run, reward = runs[key], rewards.get(key)
        if (run.evaluation, run.arm) != (evaluation, name):
            continue
        place = _place(key, run, benchmark, artifact, known)
        if key in contaminated and known[place]:
            spoilt.append(key)
        if run.status == "missing":
            (interrupted if run.missing_reason == INTERRUPTED else lost)[place] += 1
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
        lost=dict(lost),
        interrupted=dict(interrupted),
    )


def _places(benchmark: BenchmarkFrozen) -> dict[Place, bool]:
    return {
        (task.template, task.env_seed, repeat): task.is_sealed
        for task in benchmark.tasks
        for repeat in range(benchmark.repeats)
    }


def confirming_repeats(benchmark: BenchmarkFrozen, rules: Rules) -> range:
    """Repeat numbers that confirm a possible regression of a sealed instance; empty for the bootstrap."""
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
    """Pair the results of both arms on these tasks; a repeat that is missing in one arm is dropped from both."""
    found: list[PairedInstance] = []
    planned = kept = alone = other = lost = also_lost = begun = also_begun = 0
    for task in sorted(tasks, key=lambda task: (task.template.encode(), task.env_seed)):
        first = champion.sealed if task.is_sealed else champion.visible
        second = challenger.sealed if task.is_sealed else challenger.visible
        places = [(task.template, task.env_seed, repeat) for repeat in range(benchmark.repeats)]
        played = [(first.get(place), second.get(place)) for place in places]
        both = [(one, two) for one, two in played if one is not None and two is not None]
        planned, kept = planned + len(places), kept + len(both)
        lost += sum(champion.lost.get(place, 0) for place in places)
        also_lost += sum(challenger.lost.get(place, 0) for place in places)
        begun += sum(champion.interrupted.get(place, 0) for place in places)
        also_begun += sum(challenger.interrupted.get(place, 0) for place in places)
        if len(both) < len(places):
            alone += sum(one is None and two is not None for one, two in played)
            other += sum(one is not None and two is None for one, two in played)
        if both:
            results = tuple(one for one, _ in both), tuple(two for _, two in both)
            found.append(PairedInstance(task.template, task.env_seed, *results))
    return Pairs(tuple(found), planned, planned - kept, alone, other, lost, also_lost, (begun, also_begun))
