"""The picture of a verdict: which numbers it shows, and that it is always the same bytes."""

from __future__ import annotations

import os
import sys
from itertools import product
from pathlib import Path
from random import Random
from xml.etree import ElementTree as ET

import pytest

from eventlog.events import ArmName, BenchmarkFrozen, BenchmarkTask, BenchmarkTemplate, Rules, Verdict
from gate.alpha import Alpha
from gate.arms import Arm, Place, Result
from gate.drawing import DRAWS, Drawing, draw_verdict
from gate.errors import NothingToDraw, PlotsMissing
from gate.judge import judge
from gate.plot import plot

from . import test_gate_samples as samples
from .test_gate_explain import bootstrapped, by_sign_flips

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "verdict.png"

ZERO = "0" * 64
TEMPLATES = ("ask", "buy")
Scores = dict[Place, int]


def frozen(seeds: int = 4, repeats: int = 2) -> BenchmarkFrozen:
    """Two templates at these sealed seeds, and a visible one."""
    places = [*((seed, True) for seed in range(seeds)), (900, False)]
    return BenchmarkFrozen(
        benchmark="b",
        environment="shop",
        templates=tuple(
            BenchmarkTemplate(template_id=name, cluster="c", oracle_task_id=name, instruction="do it", max_steps=9)
            for name in TEMPLATES
        ),
        tasks=tuple(
            BenchmarkTask(template=name, env_seed=seed, is_sealed=is_sealed)
            for name, (seed, is_sealed) in product(TEMPLATES, places)
        ),
        repeats=repeats,
        alpha=50_000,
        challengers=10,
        successor_of=None,
        digest=ZERO,
    )


def an_arm(name: ArmName, benchmark: BenchmarkFrozen, scores: Scores, visible: int = 1) -> Arm:
    """Results at these sealed places, and at so many repeats of each visible one."""
    seen = {(name, 900, repeat): Result(0, passed=False, cost=1) for name in TEMPLATES for repeat in range(visible)}
    places = {(task.template, task.env_seed, r) for task in benchmark.tasks for r in range(benchmark.repeats)}
    side = bootstrapped().champion if name == "champion" else bootstrapped().challenger
    return Arm(
        name=name,
        artifact=side.artifact,
        evaluation="eval-1",
        benchmark=ZERO,
        sealed={place: Result(score, passed=score > 0, cost=1) for place, score in scores.items()},
        visible=seen,
        missing=frozenset(places - scores.keys() - seen.keys()),
        confirming={},
    )


def drawing(verdict: Verdict | None = None, *, less: int = 0) -> Drawing:
    """The champion fails everything; the challenger passes `ask`, and one repeat of two in `buy`.

    `less` of the challenger's runs are missing.
    """
    benchmark = frozen()
    places = [(name, seed, repeat) for name, seed, repeat in product(TEMPLATES, range(4), range(2))]
    won = {place: 1_000_000 * (place[0] == "ask" or place[2] == 0) for place in places[less:]}
    champion = an_arm("champion", benchmark, dict.fromkeys(places, 0), visible=2)
    return draw_verdict("eval-1", verdict or by_sign_flips(), champion, an_arm("challenger", benchmark, won), benchmark)


def test_each_template_shows_its_differences_and_how_many_instances_have_each() -> None:
    shown = [(dots.template, dots.counts, dots.mean) for dots in drawing().templates]
    assert shown == [("ask", ((1_000_000, 4),), 1_000_000), ("buy", ((500_000, 4),), 500_000)]


def test_missing_runs_are_counted_by_arm_and_visible_ones_left_out() -> None:
    assert (drawing().missing, drawing(less=3).missing) == ((0, 0), (0, 3))


def test_the_null_distribution_is_centred_on_zero_and_never_beyond_what_all_signs_alike_give() -> None:
    shown = drawing()
    assert len(shown.null) == DRAWS
    assert (min(shown.null), max(shown.null)) == (-750_000, 750_000)
    assert abs(sum(shown.null)) < 20_000 * DRAWS
    assert shown.null == drawing().null
    assert shown.null != drawing(by_sign_flips(rules=Rules(rng_seed=1))).null


def test_templates_weigh_the_same_but_under_the_bootstrap_of_the_seeds_where_instances_do() -> None:
    """Three of the four instances of `ask` are missing: 1 at weight 1/2 and .5 at 1/8, or all five at 1/5."""
    assert max(drawing(less=6).null) == 750_000
    assert max(drawing(bootstrapped(), less=6).null) == 600_000


def test_arms_without_a_pair_cannot_be_drawn() -> None:
    benchmark = frozen()
    nothing = an_arm("champion", benchmark, {}), an_arm("challenger", benchmark, {})
    with pytest.raises(NothingToDraw, match="eval-1 cannot be drawn: it is void"):
        draw_verdict("eval-1", by_sign_flips(decision="void"), *nothing, benchmark)


@pytest.mark.parametrize(
    "verdict", [by_sign_flips(), bootstrapped(), by_sign_flips(rules=Rules(test="e_process"), p_value=None)]
)
def test_the_same_log_gives_the_same_picture_byte_for_byte(verdict: Verdict) -> None:
    first, again = plot(drawing(verdict), "svg"), plot(drawing(verdict), "svg")
    assert first == again
    root = ET.fromstring(first)  # noqa: S314 - our own picture
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert b"dc:date" not in first
    assert plot(drawing(verdict), "png") == plot(drawing(verdict), "png")


def test_another_verdict_gives_another_picture() -> None:
    assert plot(drawing(), "svg") != plot(drawing(by_sign_flips(p_value=1)), "svg")


def test_a_verdict_whose_costs_and_interval_are_unknown_is_drawn() -> None:
    champion = by_sign_flips().champion.model_copy(update={"cost": None, "compared_cost": None})
    unknown = by_sign_flips(champion=champion, interval=None, mean_delta=-300_000, decision="hold")
    assert plot(drawing(unknown), "png").startswith(b"\x89PNG")


def test_without_matplotlib_the_way_to_install_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(PlotsMissing, match=r"pip install 'flywheel\[plots\]'"):
        plot(drawing(), "svg")


def test_a_verdict_of_several_looks_is_drawn_with_its_decision_in_a_sentence() -> None:
    """This is the picture of the documentation; `make pictures` writes it there."""
    benchmark = samples.benchmark(sealed=60, templates=("ask", "buy", "compare", "search"))
    stream = Random(3)  # noqa: S311 - sample data
    count = len(samples.sealed_places(benchmark))
    before = [1_000_000 * (stream.random() < 0.45) for _ in range(count)]
    after = [score if stream.random() < 0.7 else 1_000_000 * (stream.random() < 0.72) for score in before]
    rules = Rules.default().model_copy(update={"unit": "instance", "confirm_p": 1, "family_p": 1})
    costs: list[int | None] = [900 + stream.randrange(300) for _ in range(count)]
    champion = samples.an_arm(benchmark, "champion", before, costs=costs)
    challenger = samples.an_arm(benchmark, "challenger", after, costs=costs[::-1])
    verdict = judge(champion, challenger, benchmark, rules, Alpha(1, 5_000, 5_000))
    assert len(verdict.looks) > 1
    drawn = plot(draw_verdict("eval-3", verdict, champion, challenger, benchmark), "png")
    assert drawn.startswith(b"\x89PNG")
    if os.environ.get("FLYWHEEL_KEEP_PICTURES") == "1":
        PICTURE.write_bytes(drawn)
