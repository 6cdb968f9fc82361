"""`flywheel benchmark` and `gate run` on the golden log: what they freeze, what they say, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from api.evaluations.benchmarks import instances_seen
from api.house import House
from eventlog.events import EvaluationOpened, Rules
from gate.promote import open_evaluation
from projections.alpha import ALPHA
from projections.benchmarks import BENCHMARKS, benchmark_instances, instances_of
from projections.champions import CHAMPION, CHAMPIONS
from tests.admitted import admitted

from .test_cli import Flywheel, flywheel, shown
from .test_rest_samples import SampleRun, append, record

__all__ = ["flywheel"]

PHONE = "marketplace.phone_reveal"
pytestmark = pytest.mark.timeout(400)


def frozen(flywheel: Flywheel, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = shown(flywheel, "benchmark", "freeze", *words)
    return found


def test_seeds_are_drawn_where_nobody_has_been_and_the_same_number_draws_the_same(
    flywheel: Flywheel, house: House
) -> None:
    admitted(house.store, "marketplace")
    before = house.views().find(BENCHMARKS)
    first = frozen(flywheel, "boats", "--task", PHONE, "--sealed", "40", "--visible", "2", "--alpha", "0.04")
    assert [task["is_sealed"] for task in first["tasks"]].count(True) == 40
    assert (first["alpha"], first["challengers"], first["repeats"]) == (40_000, 10, 1)
    assert "plan_steps" not in first["templates"][0]
    second = shown(flywheel, "benchmark", "refresh", "boats", "--seed", "8")
    assert (second["benchmark"], second["successor_of"], second["alpha"]) == ("boats-2", "boats", 40_000)
    held = [house.views().find(BENCHMARKS)[name].frozen_event() for name in ("boats", "boats-2")]
    places = [{*instances_of(each)} for each in held]
    assert len(places[0] | places[1]) == 84
    assert not (places[0] | places[1]) & benchmark_instances(before.values())
    code, _, err = flywheel("benchmark", "refresh", "boats")
    assert (code, "boats was succeeded by boats-2" in err) == (1, True)


def test_tasks_are_proposed_by_how_much_was_played_of_them_and_a_small_benchmark_is_warned_of(
    flywheel: Flywheel, house: House
) -> None:
    admitted(house.store, "marketplace")
    code, out, err = flywheel("benchmark", "freeze", "boats", "--from-candidates", "--sealed", "5")
    assert code == 0, err
    assert "froze boats on marketplace: 10 sealed instances, 8 visible ones, 1 repeats" in out
    assert f"proposed: {PHONE}, with 24 graded runs" in err
    assert "boats can only void: 10 sealed instances, and the rules ask for 40" in err
    code, _, err = flywheel("benchmark", "freeze", "more", "--from-candidates", "--min-runs", "25")
    assert (code, "No task of marketplace with 25 graded runs is called" in err) == (1, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("b", "--task", "nope"), "No task of the suite is called 'nope'"),
        (("b", "--task", PHONE, "--sealed-seeds", "7-9,8"), "names the sealed seed 8 more than once"),
        (("b", "--task", PHONE, "--sealed-seeds", "7", "--visible-seeds", "7"), "is both visible and sealed"),
        (("b", "--task", PHONE, "--sealed-seeds", "0-9"), "task marketplace.phone_reveal of marketplace at seed 0"),
        (("b", "--task", PHONE, "--sealed-seeds", "10003"), "belongs to another"),
        (("b", "--task", PHONE, "--alpha", "0.000005"), "5 millionths of alpha for 10 challengers"),
        (("marketplace-1", "--task", PHONE), "A benchmark called marketplace-1 exists"),
    ],
)
def test_what_cannot_be_frozen_is_an_error_that_says_which_and_nothing_is_appended(
    words: tuple[str, ...], said: str, flywheel: Flywheel, house: House
) -> None:
    admitted(house.store, "marketplace")
    head = house.store.head()
    code, _, err = flywheel("benchmark", "freeze", *words)
    assert code == 1
    assert {each.event.type for each in house.store.read(after=head)} <= {"SuiteRegistered"}
    assert said in err


def test_only_an_admitted_site_is_frozen(flywheel: Flywheel, house: House) -> None:
    head = house.store.head()
    code, _, err = flywheel("benchmark", "freeze", "b", "--task", PHONE)
    assert (code, "is not admitted" in err, house.store.head()) == (1, True, head)


def test_a_benchmark_says_that_it_is_saturated_or_exhausted(flywheel: Flywheel, house: House) -> None:
    """The golden champion passed all of marketplace-1 until it was rolled back."""

    def standing(*as_of: str) -> tuple[str, bool, bool]:
        (row,) = shown(flywheel, "benchmark", "list", *as_of)
        return row["standing"], row["is_saturated"], row["is_exhausted"]

    assert standing("--as-of", "650") == ("saturated", True, False)
    assert standing() == ("10 challengers left", False, False)
    code, out, _ = flywheel("benchmark", "show", "marketplace-1", "--as-of", "650")
    assert (code, "saturated: the champion passed every sealed run" in out) == (0, True)
    champion = house.views().get(CHAMPIONS, CHAMPION)
    assert champion is not None
    benchmark, present = house.views().find(BENCHMARKS)["marketplace-1"].frozen_event(), champion.pointed_artifact()
    for number in range(10):
        open_evaluation(house.store, f"e-{number}", benchmark, present, present, Rules(), "ann")
    assert standing() == ("exhausted", False, True)
    code, out, _ = flywheel("benchmark", "show", "marketplace-1")
    assert "exhausted: all 10 challengers were judged; `flywheel benchmark refresh marketplace-1` freezes" in out
    admitted(house.store, "marketplace")
    head = house.store.head()
    code, _, err = flywheel("gate", "run", "--challenger", "base@0", "--test", "bootstrap")
    assert (code, "has judged 10 challengers" in err, house.store.head()) == (1, True, head)


@pytest.mark.reads
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--benchmark", "nope"), 1, "No benchmark is called 'nope'"),
        (("--site", "helpdesk"), 1, "No benchmark is called 'helpdesk-1'"),
        (("--site", "helpdesk", "--benchmark", "marketplace-1"), 1, "expected one of helpdesk"),
        (("--champion", "base@395"), 1, "base@395 is not the champion; base@0 is"),
        (("--champion", "nobody"), 1, "'nobody' is not the name of an artifact"),
        (("--executor", "demonstration"), 64, "do not use memory"),
        (("--test", "coin"), 64, "'coin' is not one of"),
    ],
)
def test_what_the_gate_cannot_judge_is_an_error_and_nothing_is_appended(
    words: tuple[str, ...], code: int, said: str, flywheel: Flywheel, house: House
) -> None:
    head = house.store.head()
    found, _, err = flywheel("gate", "run", "--challenger", "base@395", *words)
    assert (found, house.store.head()) == (code, head)
    assert said in err


def test_the_gate_judges_on_the_benchmark_that_is_named_and_refuses_one_that_can_only_void(
    flywheel: Flywheel, house: House
) -> None:
    admitted(house.store, "marketplace")
    frozen(flywheel, "boats", "--task", PHONE, "--sealed", "3", "--visible", "0", "--challengers", "3")
    wanted = ("gate", "run", "--challenger", "base@395", "--benchmark", "boats", "--champion", "base@0")
    head = house.store.head()
    code, _, err = flywheel(*wanted)
    assert (code, house.store.head()) == (1, head)
    assert "boats can only void: it has 3 sealed instances" in " ".join(err.split())
    assert "`flywheel benchmark refresh boats --sealed NUMBER`" in " ".join(err.split())
    record(house.store, house.blobs, SampleRun("eval-2__lost", is_missing=True))
    code, _, err = flywheel(*wanted, "--test", "bootstrap")
    assert code in {0, 2}
    assert "1 run missing, environment_down: no answer" in err
    assert "eval-2: both arms on boats" in err
    opened = [recorded.event for recorded in house.store.read(stream="benchmark/boats")][1]
    assert isinstance(opened, EvaluationOpened)
    assert (opened.benchmark, opened.challenge, opened.alpha, len(opened.suite)) == ("boats", 1, 16_666, 1)
    ledger = house.views().get(ALPHA, "boats")
    assert ledger is not None
    assert (ledger.challenges, ledger.spent_total, ledger.last_number) == (1, 16_666, 1)
    assert flywheel("gate", "verify", "eval-2")[0] == 0


def test_a_run_from_outside_keeps_its_seed_from_no_benchmark_until_it_is_learned_from(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any token could otherwise keep a site from its first benchmark."""
    run = SampleRun("ext-1", group="ext-g", sweep="ext-s", template=PHONE, environment="marketplace", env_seed=777_777)
    before = instances_seen(house, house.views())
    append(house.store, "run/ext-1", run.started("0" * 64))
    assert instances_seen(house, house.views()) == before
    monkeypatch.setattr("api.evaluations.benchmarks.holding_over", lambda *_: lambda _dataset, runs: "ext-1" in runs)
    assert instances_seen(house, house.views()) == before | {("marketplace", PHONE, 777_777)}
