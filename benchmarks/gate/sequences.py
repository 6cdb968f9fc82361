"""Questions about group sequential evaluations, beside those of the first design, with the targets of their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.report import Target, at_least, at_most
from eventlog.events import Rules

from . import truths
from .choosers import Chooser, Tells, climb, make_independently, play_courses, vote
from .looks import FIXED, SEQUENTIAL, Tally, run_batch
from .simulating import Count
from .truths import Shape, Truth

ALPHA = 5_000
OF_TWENTY = 2_500
CHUNK = 500
COURSES = 4_000
TELLS: tuple[Tells, ...] = ("decisions", "looks", "looks and bands")
NULLS, POWERS, FAMILIES = 20_000, 2_000, 1_000
TIMES_WIDE, TIMES_LOSING = 1_000, 2_000
OLD, WIDE = Shape(100, 3), Shape(260, 1)

Told = Callable[[Tally], tuple[int, int]]
"""Number of evaluations with the answer yes, and number of evaluations."""


@dataclass(frozen=True, slots=True)
class Question:
    """One world under one design: `worlds` names the truth in `WORLDS`, `ratio_to` the design to compare runs with."""

    figure: str
    world: str
    shape: Shape
    rules: Rules
    times: int
    seed: int
    told: tuple[str, ...] = ("promoted",)
    targets: dict[str, Target] = field(default_factory=dict)
    alpha: int = ALPHA
    challengers: int = 1
    chooser: Chooser | None = None

    def divided_by(self, divisor: int) -> Question:
        """The question for fewer evaluations."""
        return replace(self, times=max(100, self.times // divisor))


@dataclass(frozen=True, slots=True)
class Answer:
    """Rates of one question by figure, and its mean number of runs."""

    question: Question
    rates: Count
    runs: float


@dataclass(frozen=True, slots=True)
class Answers:
    """Rates (yes, of) and other figures, by figure."""

    rates: Count
    figures: dict[str, float]


WORLDS: dict[str, Truth] = (
    {
        "no difference": truths.better(0),
        "no difference, uneven": truths.better(0, is_uneven=True),
        "+.15": truths.better(0.15),
        "+.15, uneven": truths.better(0.15, is_uneven=True),
        "+.30": truths.better(0.3),
        "-.1": truths.better(-0.1),
        "shared seeds, ±.3": truths.seed_effects(are_shared=True),
        "distinct seeds, ±.3": truths.seed_effects(are_shared=False),
        "rare big gains, shared seeds": truths.seed_effects(are_shared=True, rare=True),
        "rare big gains, distinct seeds": truths.seed_effects(are_shared=False, rare=True),
        "the same at every repeat": truths.same_every_time,
        "both arms drift from .8 to .4": truths.drifting,
        "an effect drifts from +.2 to -.2 over the seeds": truths.drifting_effect(0.2, is_by_time=False),
        "an effect drifts from +.2 to -.2 over the time of play": truths.drifting_effect(0.2, is_by_time=True),
        "an effect drifts from -.2 to +.2 over the time of play": truths.drifting_effect(-0.2, is_by_time=True),
        "scores without passes": truths.scores(loses=False),
        "a template's scores fall by half": truths.scores(loses=True, gain=0.2),
        "a family loses .2": truths.one_family(0.2),
        "a family loses .3": truths.one_family(0.3),
    }
    | {f"{share:.0%} lost": truths.lossy(0, share) for share in (0.02, 0.05, 0.1, 0.35)}
    | {f"+.15, {share:.0%} lost": truths.lossy(0.15, share) for share in (0.02, 0.05, 0.1)}
    | {
        f"crashes on {crashes:.0%} of its failures, {share:.0%} lost": truths.lossy(0, share, crashes)
        for crashes, share in ((0.1, 0), (0.2, 0), (0.5, 0), (0.05, 0.02), (0.1, 0.05), (0.2, 0.05), (0.2, 0.1))
    }
    | {"passes .8, crashes on 30% of its failures, 10% lost": truths.lossy(0, 0.1, 0.3, 0.8)}
)
CRASHING = tuple(world for world in WORLDS if "crashes" in world)
UNCHARGED = SEQUENTIAL.model_copy(update={"charges_losses": False})
"""The default rules without a charge for lost runs, to show what it costs and what it is for."""

CHOOSERS = (
    Chooser("independent", make_independently, "decisions"),
    *(Chooser("climbing", climb, tells) for tells in TELLS),
    *(Chooser("voting", vote, tells) for tells in TELLS),
    Chooser("voting", vote, "looks", is_one_order=True),
)
"""Who makes challengers from what. `decisions` is what is told, `looks` what the live line and counting runs show."""

BY_LOOKS = Chooser("climbing", climb, "looks", is_one_order=True)

NO_BETTER = "promoted though no better in what was played"
SIZE = {"promoted": at_most(0.005)}
RATIOS = {"no difference": 0.5, "+.15": 0.6, "+.30": 0.4, "-.1": 0.3}
VETO = {"a family loses .2": at_least(0.8), "a family loses .3": at_least(0.8)}


def questions() -> list[Question]:
    """Every question, with a seed of its own."""
    found = [
        *(_null(world, WIDE) for world in ("no difference", "no difference, uneven", "distinct seeds, ±.3")),
        *(_null(world, WIDE) for world in ("rare big gains, distinct seeds", "both arms drift from .8 to .4")),
        *(_null(world, WIDE) for world in ("2% lost", "5% lost", "10% lost")),
        *(_null(world, WIDE, ("promoted", "void")) for world in CRASHING),
        *(_uncharged(world, NULLS) for world in CRASHING[-2:]),
        *(_null(world, OLD) for world in ("no difference", "shared seeds, ±.3", "rare big gains, shared seeds")),
        *(_null(world, OLD) for world in ("the same at every repeat", "scores without passes")),
        _null(
            "35% lost",
            WIDE,
            ("promoted", "void before any look", "promoted, of alpha spent"),
            {"promoted, of alpha spent": at_most(0.005)},
        ),
        *(_chosen(BY_LOOKS, shape) for shape in (OLD, WIDE)),
        *(_power(world, OLD, rules) for world in RATIOS for rules in (FIXED, SEQUENTIAL)),
        *(_power("+.15, uneven", OLD, rules) for rules in (FIXED, SEQUENTIAL)),
        _power("+.15", WIDE, SEQUENTIAL, {"promoted": at_least(0.8)}),
        _power("+.15, uneven", WIDE, SEQUENTIAL, {"promoted": at_least(0.8)}),
        *(_losing(f"+.15, {share} lost") for share in ("2%", "5%", "10%")),
        *(_uncharged(f"+.15, {share} lost", TIMES_LOSING) for share in ("2%", "5%", "10%")),
        *(
            Question(
                f"{world}, 100 × 3",
                world,
                OLD,
                SEQUENTIAL,
                FAMILIES,
                0,
                ("vetoed, of those that pass the test", "promoted"),
                {"vetoed, of those that pass the test": bound},
            )
            for world, bound in VETO.items()
        ),
        *(
            Question(
                f"{world}, 100 × 3, {_design(rules)}",
                world,
                OLD,
                rules,
                FAMILIES,
                0,
                ("vetoed, of those that pass the test",),
                {} if rules is FIXED else {"vetoed, of those that pass the test": at_least(0.8)},
            )
            for world in ("a template's scores fall by half",)
            for rules in (FIXED, SEQUENTIAL)
        ),
        *(_chosen(chooser, shape) for shape in (OLD, WIDE) for chooser in CHOOSERS),
        _null("an effect drifts from +.2 to -.2 over the seeds", WIDE),
        _wearing_off("+.2 to -.2"),
        *(_power("+.15", shape, SEQUENTIAL) for shape in (Shape(200, 1), Shape(300, 1), Shape(130, 2))),
        _wearing_off("-.2 to +.2"),
    ]
    return [replace(question, seed=number) for number, question in enumerate(found)]


def _chosen(chooser: Chooser, shape: Shape) -> Question:
    """Any of twenty challengers; the targets are those of what the product tells."""
    figure = f"adversarial: {chooser}, any of 20, {shape}"
    is_told = chooser.tells == "decisions"
    targets = {told: at_most(0.05) for told in ("any passes the test", "any promoted") if is_told}
    times = COURSES
    return Question(
        figure, "any of 20", shape, SEQUENTIAL, times, 0, (), targets, OF_TWENTY, challengers=20, chooser=chooser
    )


def _design(rules: Rules) -> str:
    return "sequential" if rules.looks else "fixed"


def _null(
    world: str, shape: Shape, told: tuple[str, ...] = ("promoted",), targets: dict[str, Target] | None = None
) -> Question:
    return Question(
        f"{world}, {shape} at .005", world, shape, SEQUENTIAL, NULLS, 0, told, SIZE if targets is None else targets
    )


def _wearing_off(drift: str) -> Question:
    """An effect over the time of play: a stop at an early look may tell of what was played, and of no more."""
    told = ("promoted", NO_BETTER)
    return _null(f"an effect drifts from {drift} over the time of play", WIDE, told, {NO_BETTER: at_most(0.005)})


def _power(
    world: str, shape: Shape, rules: Rules, targets: dict[str, Target] | None = None, told: tuple[str, ...] = ()
) -> Question:
    told = told or ("promoted", "vetoed, of those that pass the test")
    times = POWERS if shape == OLD else TIMES_WIDE
    return Question(f"{world}, {shape}, {_design(rules)}", world, shape, rules, times, 0, told, targets or {})


def _losing(world: str) -> Question:
    found = _power(world, WIDE, SEQUENTIAL, {"void": at_most(0.01)}, ("promoted", "void"))
    return replace(found, times=TIMES_LOSING)


def _uncharged(world: str, times: int) -> Question:
    return Question(f"{world}, {WIDE}, without the charge", world, WIDE, UNCHARGED, times, 0)


def answered(question: Question) -> Answer:
    """Simulate one question. Deterministic."""
    rng = np.random.default_rng(question.seed)
    if question.chooser is not None:
        return _any_of(question, question.chooser, rng)
    tally = Tally()
    for begin in range(0, question.times, CHUNK):
        batch = WORLDS[question.world](rng, min(CHUNK, question.times - begin), question.shape)
        run_batch(batch, question.rules, question.alpha, tally)
    rates = {f"{question.figure}, {told}": TOLD[told](tally) for told in question.told}
    return Answer(question, rates, tally.runs / tally.evaluations)


def _any_of(question: Question, chooser: Chooser, rng: np.random.Generator) -> Answer:
    """Courses in which any challenger of a chooser passes the test, and in which any is promoted."""
    q = question
    found = play_courses(chooser, q.shape, q.rules, q.alpha, q.challengers, q.times, rng)
    rates = {
        f"{q.figure}, any passes the test": (found.passed, found.courses),
        f"{q.figure}, any promoted": (found.promoted, found.courses),
    }
    return Answer(question, rates, 0.0)


TOLD: dict[str, Told] = {
    "promoted": lambda tally: (tally.promoted, tally.evaluations),
    NO_BETTER: lambda tally: (tally.unfounded, tally.evaluations),
    "void": lambda tally: (tally.void, tally.evaluations),
    "void before any look": lambda tally: (tally.unseen, tally.evaluations),
    "promoted, of alpha spent": lambda tally: (tally.promoted, tally.evaluations - tally.unseen),
    "vetoed, of those that pass the test": lambda tally: (tally.vetoed, max(1, tally.promoted + tally.vetoed)),
}


def gathered(found: Sequence[Answer]) -> tuple[Answers, dict[str, Target]]:
    """All rates, mean runs, runs relative to the fixed design, and their targets."""
    rates: Count = {}
    figures: dict[str, float] = {}
    targets: dict[str, Target] = {}
    for answer in found:
        rates |= answer.rates
        targets |= {f"{answer.question.figure}, {told}": bound for told, bound in answer.question.targets.items()}
        if answer.runs:
            figures[f"{answer.question.figure}, mean runs"] = answer.runs
    runs: dict[str, Any] = {answer.question.figure: answer.runs for answer in found}
    for world, bound in RATIOS.items():
        figure = f"{world}, {OLD}, runs of sequential / fixed"
        figures[figure] = runs[f"{world}, {OLD}, sequential"] / runs[f"{world}, {OLD}, fixed"]
        targets[figure] = at_most(bound)
    for world in ("+.15", "+.15, uneven"):
        yes = [rates[f"{world}, {OLD}, {design}, promoted"] for design in ("fixed", "sequential")]
        figure = f"{world}, {OLD}, power of fixed less sequential"
        figures[figure] = yes[0][0] / yes[0][1] - yes[1][0] / yes[1][1]
        targets[figure] = at_most(0.03)
    return Answers(rates, figures), targets
