"""Tasks whose right answer is the same at every seed: probed, marked in a benchmark, and named by its verdicts."""

from __future__ import annotations

from typing import Any, cast

import pytest

from agents.envs.admission import record
from agents.envs.contract import TaskText
from agents.envs.probing import probes, seeding
from agents.envs.probing.target import Target
from api.evaluations.benchmarks import judged_tasks, mark_repeated, size_in_words
from eventlog.events import BenchmarkFrozen, EnvironmentProbed, Rules, Template
from gate.alpha import Alpha
from gate.decision import explain_decision, hide_figures
from gate.benchmark import freeze_benchmark
from gate.explain import explain
from gate.judge import judge
from gate.renewal import Amounts, successor
from projections.benchmarks import BENCHMARKS
from projections.environments import ENVIRONMENTS
from tests.unit.test_agent_samples import a_store, add, views
from tests.unit.test_gate_samples import an_arm, template

SITE = "shop"
TASKS = tuple(TaskText(task_id=f"oracle-{name}", instruction="do it", cluster="c") for name in ("t1", "t2"))


def target() -> Target:
    missing = cast("Any", None)
    return Target(SITE, missing, missing, TASKS, "http://127.0.0.1:9", (0, 1), 7, solve=lambda *_: None)


def probed(patch: pytest.MonkeyPatch, *alike: str) -> EnvironmentProbed:
    patch.setattr(seeding, "_start_of", lambda _, seed: str(seed))
    patch.setattr(seeding, "_is_passed_by", lambda _, task, *_seeds: task in alike)
    patch.setattr(probes, "_fingerprints", lambda _: ())
    return probes.report(target(), [each for each in probes.PROBES if each.name == "two_seeds"])


def frozen(store: Any, templates: list[Template]) -> BenchmarkFrozen:
    judged = judged_tasks(views(store), SITE, templates)
    return freeze_benchmark("shop-1", SITE, judged, [], range(10_000, 10_020), 1)


def test_a_probe_names_them_and_a_benchmark_marks_them(monkeypatch: pytest.MonkeyPatch) -> None:
    report = probed(monkeypatch, "oracle-t2")
    assert (report.alike, report.probes[0].outcome) == (("oracle-t2",), "passed")
    assert "alike" not in probed(monkeypatch).model_dump()
    store, templates = a_store(), [template("t1"), template("t2")]
    plain = frozen(store, templates)
    assert "repeats;" not in size_in_words(plain)
    assert "one_answer" not in plain.templates[0].model_dump()
    record(store, report, "test")
    assert views(store).find(ENVIRONMENTS)[SITE].alike == ("oracle-t2",)
    marked = frozen(store, templates)
    assert [each.one_answer for each in marked.templates] == [False, True]
    assert marked.digest != plain.digest
    assert size_in_words(marked).endswith("the right answer is the same at every seed of t2, whose seeds are repeats")
    assert mark_repeated(views(store), SITE, marked.templates) == marked.templates
    add(store, "benchmark/shop-1", marked)
    state = views(store).find(BENCHMARKS)["shop-1"]
    assert state.frozen_event() == marked
    assert successor(marked, {"shop-1": state}, (), rng_seed=7, amounts=Amounts(0, 3, 1)).templates == marked.templates


def test_a_verdict_claims_no_more_than_these_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    store, templates = a_store(), [template("t1"), template("t2")]
    plain = frozen(store, templates)
    record(store, probed(monkeypatch, "oracle-t2"), "test")
    marked = frozen(store, templates)
    rules, told = Rules.default().model_copy(update={"bootstrap_samples": 20, "min_pairs": 10}), []
    for benchmark in (plain, marked):
        arms = (an_arm(benchmark, "champion", [0] * 40), an_arm(benchmark, "challenger", [1_000_000] * 40))
        verdict = judge(*arms, benchmark, rules, Alpha(1, 5_000, 5_000))
        hidden = hide_figures(verdict.model_dump(mode="json"), verdict)
        claims = [dict(rows).get("claim") for rows in (explain(verdict), explain_decision(verdict))]
        told.append((verdict.one_answer, *claims))
        assert ("one_answer" in hidden) is bool(verdict.one_answer)
    assert told[0] == ((), None, None)
    assert told[1][0] == ("t2",)
    assert told[1][1] == told[1][2]
    assert str(told[1][1]).startswith("t2: the right answer is the same at every seed")
