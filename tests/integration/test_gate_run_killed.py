"""`flywheel gate run` killed for real while it plays: the same command goes on at its look, with the same verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from api.history.disown import STREAM
from eventlog.events import (
    EvaluationLooked,
    EvaluationOpened,
    EventsDisowned,
    PriceBookSet,
    RunMissing,
    Verdict,
    VerdictReached,
)
from eventlog.store import Append
from tests.admitted import admitted
from tests.conftest import Database
from tests.killing import Kill, Project, project_on

pytestmark = pytest.mark.timeout(400)

FREEZE = ["benchmark", "freeze", "boats", "--visible", "1", "--sealed", "24"]
FREEZE += ["--task", "marketplace.lead_filtered_search", "--task", "marketplace.price_watch"]
WORDS = ["gate", "run", "--benchmark", "boats", "--challenger", "base@395"]
RUNS = "run/eval-2__"
KILLS = (
    Kill("RunFinished", 5, RUNS),
    Kill("EvaluationLooked"),
    Kill("RunFinished", 30, RUNS),
    Kill("EvaluationLooked", 2),
)
"""Within the first look, as soon as it was recorded, within the second, and as soon as that was recorded."""


def prepared(project: Project) -> None:
    """The golden log with a challenger that is better, an admitted site, a benchmark, and prices without time."""
    store = project.house.store
    admitted(store, "marketplace")
    (*_, book) = [each.event for each in store.read(types=["PriceBookSet"])]
    assert isinstance(book, PriceBookSet)
    store.append([Append("prices", (book.model_copy(update={"version": book.version + 1, "per_second": 0}),), "test")])
    quarantined = tuple(each.position for each in store.read(types=["MemoryQuarantined"]))
    store.append([Append(STREAM, (EventsDisowned(positions=quarantined, reason="a test"),), "test")])
    project.completed(project.begun(FREEZE))


def verdict(project: Project) -> Verdict:
    found = [each for each in project.events(VerdictReached) if each.evaluation == "eval-2"]
    assert len(found) == 1
    verdict: Verdict = found[0].verdict
    return verdict


@pytest.mark.costly("six real commands, four of them killed, and two evaluations")
def test_an_evaluation_that_is_killed_goes_on_at_its_look_with_the_same_verdict(
    clone: Callable[[str], Database], tmp_path: Path
) -> None:
    with project_on(clone("seeded"), tmp_path / "plain") as plain:
        prepared(plain)
        plain.completed(plain.begun(WORDS))
        expected, looks = verdict(plain), plain.events(EvaluationLooked)
    assert len(looks) > 1
    with project_on(clone("seeded"), tmp_path / "killed") as killed:
        prepared(killed)
        killed.driven(WORDS, KILLS)
        found = verdict(killed)
        assert found.model_copy(update={"interrupted": None}) == expected
        missing = [each.reason for each in killed.events(RunMissing)]
        assert missing == ["interrupted"] * len(missing)
        assert sum(found.interrupted or ()) <= len(missing)
        assert [each.look for each in killed.events(EvaluationLooked)] == [each.look for each in looks]
        opened = [each for each in killed.events(EvaluationOpened) if each.evaluation == "eval-2"]
        assert [(each.challenge, each.alpha) for each in opened] == [(1, 5_000)]
        started = [each.stream for each in killed.house.store.read(types=["RunStarted"])]
        assert len(started) == len(set(started))
