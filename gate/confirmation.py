"""Confirms regressions by fresh repeats: of instances that looked worse, and of templates that looked worse. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain

from eventlog.events import BenchmarkFrozen, Confirmation, FamilyCheck, Rules

from .arms import Arm, PairedInstance, Result, confirming_repeats
from .counts import pico
from .losses import FAILED
from .permutation import Division, divide, lower_tail
from .stats import MICRO
from .strata import Strata, stratify

ROUND = 3
"""Repeats that each instance plays before it is asked again whether more are needed."""


@dataclass(frozen=True, slots=True)
class Suspects:
    """Instances that looked worse, and all compared instances of the templates that looked worse on the whole.

    `templates` is the number of templates that share the p of a family.
    """

    worse: tuple[PairedInstance, ...] = ()
    families: tuple[tuple[PairedInstance, ...], ...] = ()
    templates: int = 0

    @property
    def instances(self) -> tuple[PairedInstance, ...]:
        """Every instance to play again, once, in order of template and seed."""
        found = {(each.template, each.env_seed): each for own in (self.worse, *self.families) for each in own}
        return tuple(found[key] for key in sorted(found, key=lambda key: (key[0].encode(), key[1])))


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Results of fresh repeats; `open` are the instances of which a further repeat could still change the decision."""

    instances: tuple[Confirmation, ...]
    families: tuple[FamilyCheck, ...]
    open: tuple[PairedInstance, ...]


@dataclass(frozen=True, slots=True)
class _Fresh:
    """Fresh results of one instance in one arm, and how many places were lost, or not played.

    `failing` are the results with those of places that lost a run before as failed.
    """

    results: tuple[Result, ...]
    failing: tuple[Result, ...]
    lost: int
    unplayed: int

    def scores(self, rules: Rules, lost: int, unplayed: int, *, is_failing: bool = False) -> tuple[int, ...]:
        """Scores in millionths, with these for what was lost and for what was not played."""
        results = self.failing if is_failing else self.results
        found = (each.score if rules.regression_by == "score" else MICRO * each.passed for each in results)
        return (*found, *[lost] * self.lost, *[unplayed] * self.unplayed)


_Sides = tuple[_Fresh, _Fresh]
Tail = Callable[[Sequence[Division]], Fraction]
"""The probability of a total as low as the observed one: `lower_tail`, or for simulations an approximation of it."""


def find_suspects(
    instances: Sequence[PairedInstance],
    strata: Strata | None,
    rules: Rules,
    failing: Sequence[PairedInstance] = (),
) -> Suspects:
    """Instances that lose more than `tolerated_loss`, and where rules ask for it templates whose mean loses at all.

    `failing` are the same instances with lost places counted as failed; what looks worse there is suspected as well.
    """
    if strata is None:
        return Suspects()
    known = {_key(each): each for each in (*failing, *instances)}
    worse, names = _look_worse(instances, strata, rules)
    if failing:
        also = _look_worse(failing, stratify((each.template, each.deltas) for each in failing), rules)
        worse, names = worse | also[0], names | also[1]
    templates = dict.fromkeys(template for template, _ in known)
    families = tuple(
        tuple(each for each in known.values() if each.template == name)
        for name in templates
        if rules.family_p and name in names
    )
    return Suspects(tuple(each for key, each in known.items() if key in worse), families, len(templates))


def _look_worse(
    instances: Sequence[PairedInstance], strata: Strata, rules: Rules
) -> tuple[set[tuple[str, int]], set[str]]:
    """Instances whose mean difference is below minus the tolerated loss, and templates whose mean is below zero."""
    worse = {_key(each) for each in instances if sum(each.deltas) < -rules.tolerated_loss * len(each.deltas)}
    return worse, {name for name, own in zip(strata.names, strata.values, strict=True) if sum(own) < 0}


def confirm(
    suspects: Suspects,
    champion: Arm,
    challenger: Arm,
    benchmark: BenchmarkFrozen,
    rules: Rules,
    tail: Tail = lower_tail,
) -> Confirmed:
    """Confirm each suspect: it regressed if the one-sided p is at most its share of `confirm_p` or `family_p`.

    An instance has to lose more than `tolerated_loss` in the mean of these repeats as well.
    A repeat that was lost counts against the challenger: as passed in the champion's arm, as failed in its own.
    So missing runs cannot cause a promotion. A repeat that was not played counts alike, unless a regression stands
    whatever the repeats would give that were not played: then all suspects are judged in the challenger's favour.
    """
    fresh = {
        _key(each): (_fresh(each, champion, benchmark, rules), _fresh(each, challenger, benchmark, rules))
        for each in suspects.instances
    }
    instances, families = _judge(suspects, fresh, rules, tail, is_kind=False)
    is_settled = False
    if rules.curtails and (any(each.is_regression for each in instances) or any(each.is_worse for each in families)):
        kind = _judge(suspects, fresh, rules, tail, is_kind=True)
        is_settled = any(each.is_regression for each in kind[0]) or any(each.is_worse for each in kind[1])
        instances, families = kind if is_settled else (instances, families)
    doubtful = [each for each, found in zip(suspects.worse, instances, strict=True) if found.is_regression]
    for own, found in zip(suspects.families, families, strict=True):
        doubtful += own if found.is_worse else ()
    names = {_key(each) for each in doubtful if any(side.unplayed for side in fresh[_key(each)])}
    still_open = () if is_settled else tuple(each for each in suspects.instances if _key(each) in names)
    return Confirmed(instances, families, still_open)


def next_repeats(
    champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen, rules: Rules, instance: tuple[str, int]
) -> range:
    """The next confirming repeats of an instance (template, seed) that an arm lacks."""
    asked = confirming_repeats(benchmark, rules)
    for repeat in asked:
        place = *instance, repeat
        if not all(place in arm.confirming or place in arm.lost for arm in (champion, challenger)):
            return range(repeat, min(repeat + ROUND, asked.stop))
    return range(0)


def _judge(
    suspects: Suspects, fresh: Mapping[tuple[str, int], _Sides], rules: Rules, tail: Tail, *, is_kind: bool
) -> tuple[tuple[Confirmation, ...], tuple[FamilyCheck, ...]]:
    instances = tuple(
        _confirmation(each, fresh[_key(each)], rules, len(suspects.worse), is_kind=is_kind) for each in suspects.worse
    )
    families = tuple(
        _family(own, [fresh[_key(each)] for each in own], suspects, rules, tail, is_kind=is_kind)
        for own in suspects.families
    )
    return instances, families


def _confirmation(instance: PairedInstance, sides: _Sides, rules: Rules, among: int, *, is_kind: bool) -> Confirmation:
    readings = [(found, lower_tail([divide(*found)])) for (found,) in _scores([sides], rules, is_kind=is_kind)]
    first, second = sides
    told = rules.regression_by == "score"
    return Confirmation(
        instance=instance.name,
        champion_runs=len(first.results),
        champion_passed=sum(result.passed for result in first.results),
        challenger_runs=len(second.results),
        challenger_passed=sum(result.passed for result in second.results),
        p_value=pico(min(p for _, p in readings)),
        is_regression=any(
            p * among * MICRO <= rules.confirm_p and _loses_more(found, rules.tolerated_loss) for found, p in readings
        ),
        champion_score=sum(result.score for result in first.results) if told else None,
        challenger_score=sum(result.score for result in second.results) if told else None,
    )


def _loses_more(scores: tuple[tuple[int, ...], tuple[int, ...]], tolerated: int) -> bool:
    """True if the challenger loses more than is tolerated in the mean; where nothing is, p alone decides."""
    champion, challenger = scores
    return not tolerated or sum(champion) - sum(challenger) > tolerated * len(champion)


def _family(
    own: Sequence[PairedInstance], sides: Sequence[_Sides], among: Suspects, rules: Rules, tail: Tail, *, is_kind: bool
) -> FamilyCheck:
    p = _p(sides, rules, tail, is_kind=is_kind)
    first, second = (tuple(chain.from_iterable(each.results for each in arm)) for arm in zip(*sides, strict=True))
    return FamilyCheck(
        template=own[0].template,
        instances=len(own),
        champion_runs=len(first),
        challenger_runs=len(second),
        champion_score=sum(result.score for result in first),
        challenger_score=sum(result.score for result in second),
        p_value=pico(p),
        is_worse=p * among.templates * MICRO <= rules.family_p,
    )


def _p(sides: Sequence[_Sides], rules: Rules, tail: Tail, *, is_kind: bool) -> Fraction:
    """One-sided p over some instances: where their scores are read in two ways, the smaller of two."""
    return min(
        tail([divide(first, second) for first, second in found]) for found in _scores(sides, rules, is_kind=is_kind)
    )


def _scores(
    sides: Sequence[_Sides], rules: Rules, *, is_kind: bool
) -> Iterator[list[tuple[tuple[int, ...], tuple[int, ...]]]]:
    """Scores of the champion and the challenger on each instance; what was not played passed in one arm alone.

    With `is_kind` that is the challenger's. Where rules charge losses and a place lost a run, the scores come a second
    time, with such places as failed.
    """
    unplayed = (0, MICRO) if is_kind else (MICRO, 0)
    is_charged = rules.charges_losses and any(each.failing != each.results for side in sides for each in side)
    for is_failing in (False, True) if is_charged else (False,):
        yield [
            (
                first.scores(rules, MICRO, unplayed[0], is_failing=is_failing),
                second.scores(rules, 0, unplayed[1], is_failing=is_failing),
            )
            for first, second in sides
        ]


def _fresh(instance: PairedInstance, arm: Arm, benchmark: BenchmarkFrozen, rules: Rules) -> _Fresh:
    places = [(*_key(instance), repeat) for repeat in confirming_repeats(benchmark, rules)]
    played = [place for place in places if place in arm.confirming]
    results = tuple(arm.confirming[place] for place in played)
    failing = tuple(FAILED if place in arm.lost else arm.confirming[place] for place in played)
    lost = sum(place not in arm.confirming and place in arm.lost for place in places)
    return _Fresh(results, failing, lost, len(places) - len(results) - lost)


def _key(instance: PairedInstance) -> tuple[str, int]:
    return instance.template, instance.env_seed
