"""The ledger of benchmarks: at the command line and over REST, now and as of any position."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from api.house import House
from eventlog.events import EvaluationOpened, Rules, VerdictReached
from tests.golden.test_golden_samples import sample
from tests.recomputing import every_verdict_recomputes

from .test_cli import Flywheel, flywheel, shown
from .test_rest_samples import BASE, NO_DIGEST, append

__all__ = ["flywheel"]

SPENT = 5_000


def opened(evaluation: str, challenge: int, benchmark: str = "second") -> EvaluationOpened:
    return EvaluationOpened(
        evaluation=evaluation,
        benchmark=benchmark,
        benchmark_digest=NO_DIGEST,
        champion=BASE,
        challenger=BASE,
        rules=Rules(),
        challenge=challenge,
        alpha=SPENT,
        suite=(),
    )


def two_evaluations(house: House) -> int:
    """A benchmark for two challengers, both of them opened, the first one decided. The position before the second."""
    frozen = sample("BenchmarkFrozen", benchmark="second", alpha=2 * SPENT + 1, challengers=2)
    verdict = sample("VerdictReached", evaluation="first")
    assert isinstance(verdict, VerdictReached)
    held = verdict.verdict.model_copy(update={"decision": "hold"})
    append(house.store, "benchmark/second", frozen, opened("first", 1))
    append(house.store, "champion", verdict.model_copy(update={"verdict": held}))
    before = house.store.head()
    append(house.store, "benchmark/second", opened("another", 2))
    return before


def test_a_ledger_names_every_evaluation_in_order_with_what_it_spent_and_decided(
    flywheel: Flywheel, house: House
) -> None:
    before = two_evaluations(house)
    (second,) = shown(flywheel, "gate", "ledger", "--benchmark", "second")
    assert [(e["evaluation"], e["challenge"], e["alpha"], e["decision"]) for e in second["evaluations"]] == [
        ("first", 1, SPENT, "hold"),
        ("another", 2, SPENT, None),
    ]
    figures = [second[name] for name in ("alpha", "challengers", "challenges", "spent", "left", "is_exhausted")]
    assert figures == [2 * SPENT + 1, 2, 2, 2 * SPENT, 1, True]
    (then,) = shown(flywheel, "gate", "ledger", "--benchmark", "second", "--as-of", str(before))
    assert (then["spent"], then["left"], then["is_exhausted"]) == (SPENT, SPENT + 1, False)
    assert [e["decision"] for e in then["evaluations"]] == ["hold"]


@pytest.mark.reads
def test_what_was_opened_before_the_ledger_spent_nothing(flywheel: Flywheel) -> None:
    (only,) = shown(flywheel, "gate", "ledger")
    assert (only["benchmark"], only["spent"], only["challenges"], only["left"]) == ("marketplace-1", 0, 0, 50_000)
    assert [(e["evaluation"], e["challenge"], e["decision"]) for e in only["evaluations"]] == [("eval-1", 0, "promote")]


def test_a_ledger_is_told_to_people(flywheel: Flywheel, house: House) -> None:
    two_evaluations(house)
    code, out, _ = flywheel("gate", "ledger")
    assert code == 0
    assert "marketplace-1: alpha 0.05, spent 0 on 0 challengers of 10, left 0.05" in out
    assert "second: alpha 0.010001, spent 0.01 on 2 challengers of 2, left 0.000001; exhausted" in out
    code, _, err = flywheel("gate", "ledger", "--benchmark", "third")
    assert (code, "No benchmark is called 'third'" in err) == (1, True)


def test_a_ledger_is_read_over_rest_as_of_any_position(client: TestClient, house: House) -> None:
    before = two_evaluations(house)
    now = client.get("/v1/benchmarks/second/ledger").json()["ledger"]
    assert (now["spent"], now["is_exhausted"], len(now["evaluations"])) == (2 * SPENT, True, 2)
    then = client.get("/v1/benchmarks/second/ledger", params={"as_of": before})
    assert (then.headers["X-Log-Position"], then.json()["ledger"]["spent"]) == (str(before), SPENT)
    missing = client.get("/v1/benchmarks/third/ledger")
    assert (missing.status_code, missing.json()["error"]["type"]) == (404, "Unknown")


@pytest.mark.reads
def test_every_verdict_of_the_golden_log_recomputes(house: House) -> None:
    assert every_verdict_recomputes(house) == 1


def test_a_verdict_that_differs_is_named_among_all_of_them(flywheel: Flywheel, house: House) -> None:
    assert [row["outcome"] for row in shown(flywheel, "gate", "verify", "--all")] == ["equal"]
    forged = sample("VerdictReached", evaluation="eval-1")
    assert isinstance(forged, VerdictReached)
    append(
        house.store,
        "champion",
        forged.model_copy(update={"verdict": forged.verdict.model_copy(update={"pairs": 11})}),
    )
    code, out, err = flywheel("gate", "verify", "--all")
    assert (code, out) == (1, "different: eval-1\n")
    assert "1 of 1 recomputed verdicts differ from the recorded ones: eval-1" in err
    code, out, _ = flywheel("gate", "verify", "--all", "--json")
    assert (code, '"equal": false' in out) == (1, True)
    code, _, err = flywheel("gate", "verify", "eval-1")
    assert (code, "eval-1 differs from the recorded one" in err) == (1, True)


@pytest.mark.reads
@pytest.mark.parametrize("words", [("gate", "verify"), ("gate", "verify", "eval-1", "--all")], ids=" ".join)
def test_verify_takes_one_evaluation_or_all(words: tuple[str, ...], flywheel: Flywheel) -> None:
    code, _, err = flywheel(*words)
    assert (code, "expected an evaluation, or --all" in err) == (64, True)
