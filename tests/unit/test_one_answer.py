"""Tasks whose right answer is the same at every seed: probed, marked in a benchmark, and named by its verdicts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agents.envs.admission import record
from agents.envs.contract import Mutation, TaskText
from agents.envs.foreign.answers import NOWHERE
from agents.envs.probing import probes, seeding
from agents.envs.probing.answers import aim_of, is_one_answer
from agents.envs.probing.target import Target
from api.evaluations import repeats
from api.evaluations.benchmarks import judged_tasks, size_in_words
from api.evaluations.repeats import mark_repeated
from eventlog.blobs import Blob, MemoryBlobs
from eventlog.events import (
    BenchmarkFrozen,
    EnvironmentProbed,
    ProbeResult,
    Rules,
    RunsWithdrawn,
    SweepPlanned,
    Template,
)
from gate.alpha import Alpha
from gate.benchmark import freeze_benchmark
from gate.decision import explain_decision, hide_figures
from gate.explain import explain
from gate.judge import judge
from gate.renewal import SeedAmounts, successor
from projections.benchmarks import BENCHMARKS
from projections.environments import ENVIRONMENTS
from tests.unit.test_agent_samples import EMPTY, a_store, add, finished, spec, started, views
from tests.unit.test_folds_samples import graded
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


def house_of(store: Any, blobs: MemoryBlobs | None = None) -> Any:
    """What marking reads of a house."""
    return SimpleNamespace(store=store, blobs=blobs, views=lambda: views(store))


def frozen(store: Any, templates: list[Template], blobs: MemoryBlobs | None = None) -> BenchmarkFrozen:
    judged = judged_tasks(house_of(store, blobs), SITE, templates)
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
    assert mark_repeated(house_of(store), SITE, marked.templates) == marked.templates
    add(store, "benchmark/shop-1", marked)
    state = views(store).find(BENCHMARKS)["shop-1"]
    assert state.frozen_event() == marked
    assert (
        successor(marked, {"shop-1": state}, (), rng_seed=7, amounts=SeedAmounts(0, 3, 1)).templates == marked.templates
    )


def change(target: str, number: int = 1, **payload: Any) -> Mutation:
    return Mutation(id=number, operation="order", target_type="jacket", target_id=target, payload=payload, at=number)


class Strange:
    """A site whose right answers nobody knows: at each seed a task is passed by one order, or by any."""

    def __init__(self, right: Mapping[str, Any]) -> None:
        self.right, self.plays_seen = right, 0

    def reset(self, seed: int, *, repeat: int = 0) -> Any:
        return SimpleNamespace(seed=seed, repeat=repeat, orders=[])

    def close(self, instance: Any) -> None: ...

    def state(self, instance: Any) -> Any:
        return SimpleNamespace(fingerprint=f"sha256:{instance.seed:064}")

    def oracle(self, instance: Any, task_id: str) -> Any:
        return SimpleNamespace(passed=[each.target_id for each in instance.orders] == [self.right[task_id](instance)])

    def mutations(self, instance: Any) -> Any:
        return tuple(instance.orders)

    def plan(self, answer: Any) -> Any:
        def play(instance: Any) -> None:
            self.plays_seen += 1
            instance.orders.append(change(answer(instance)))

        return play


def strange_target(seeds: tuple[int, ...] = (0, 1, 10_000)) -> tuple[Target, Strange]:
    varied, pinned = (lambda instance: f"jacket-{instance.seed}"), (lambda _: "jacket-7")
    site: Any = Strange({"pinned": pinned, "varied": varied, "broken": varied, "planless": pinned})
    tasks = tuple(TaskText(task_id=name, instruction="do it", cluster="c") for name in site.right)
    target = Target(
        SITE, site, cast("Any", None), tasks, "http://127.0.0.1:9", seeds, 7, visit=cast("Any", nullcontext)
    )
    plays = {"pinned": site.plan(pinned), "varied": site.plan(varied), "broken": site.plan(lambda _: "jacket-9")}
    return replace(target, plays=plays), site


def test_without_a_known_solution_the_plans_that_pass_show_which_answers_are_the_same() -> None:
    target, site = strange_target()
    detail = seeding.two_seeds(target)
    assert target.alike == {"pinned"}
    assert detail.endswith("plans show the answers of 2 of 4 tasks; the same changes pass at every seed: pinned")
    assert site.plays_seen == 3 + 2 + 1  # all three seeds, until two differ, until one fails
    few, site = strange_target((0, 1))
    assert "plans have to pass at 3 seeds" in seeding.two_seeds(few)
    assert (few.alike, site.plays_seen) == (set(), 0)
    assert "no plan by a suite" in seeding.two_seeds(replace(target, plays={}))


@pytest.mark.parametrize(
    ("changes", "is_one"),
    [
        (((change("a"),), (change("a", 4),), (change("a"),)), True),
        (((change("a"),), (change("a"),)), False),
        (((change("a"),), (change("a"),), (change("b"),)), False),
        (((change("a", to="x"),), (change("a", to="x"),), (change("a", to="y"),)), False),
        (((change("a"), change("b", 2)), (change("a"), change("b", 2)), (change("b"), change("a", 2))), False),
        (((), (), ()), False),
        (((change(NOWHERE),), (change(NOWHERE),), (change(NOWHERE),)), False),
        (((change(NOWHERE, to="x"),), (change(NOWHERE, to="x"),), (change(NOWHERE, to="x"),)), True),
    ],
)
def test_answers_are_the_same_where_three_seeds_were_passed_by_the_same_changes(
    changes: tuple[tuple[Mutation, ...], ...], is_one: bool
) -> None:
    found = {seed: aim for seed, each in enumerate(changes) if (aim := aim_of(each)) is not None}
    assert is_one_answer(found) is is_one


def add_run(store: Any, blobs: MemoryBlobs, seed: int, answer: str, *, passed: bool = True) -> str:
    """A run of t1 that ordered something, in the log, as the only one of its sweep."""
    planned = spec("t1__seed0__s0", sweep=f"s{seed}", seed=seed).model_copy(update={"group_id": f"s{seed}__t1__seed0"})
    add(
        store,
        f"sweep/s{seed}",
        SweepPlanned(sweep=f"s{seed}", environment=SITE, templates=(), specs=(), artifact=EMPTY, rng_seed=7),
    )
    end_state = Blob("application/json", json.dumps([change(answer).model_dump(mode="json")]).encode())
    blobs.put([end_state])
    began = started(planned)
    began = began.model_copy(update={"task_spec": began.task_spec.model_copy(update={"environment": SITE})})
    ended = finished(planned).model_copy(update={"end_state": end_state.digest, "mutations": 1})
    add(store, f"run/{planned.spec_id}", began, ended, graded(planned.spec_id, passed=passed, group=planned.group_id))
    return planned.spec_id


def test_recorded_passed_runs_show_it_when_a_benchmark_is_frozen() -> None:
    store, blobs, templates = a_store(), MemoryBlobs(), [template("t1"), template("t2")]
    for seed in (0, 1):
        add_run(store, blobs, seed, "jacket-7")
    add_run(store, blobs, 2, "jacket-9", passed=False)
    assert [each.one_answer for each in frozen(store, templates, blobs).templates] == [False, False]
    third = add_run(store, blobs, 3, "jacket-7")
    assert [each.one_answer for each in frozen(store, templates, blobs).templates] == [True, False]
    withdrawn = RunsWithdrawn(runs=(third,), reason="not ours")
    add(store, "withdrawals", withdrawn)
    assert [each.one_answer for each in frozen(store, templates, blobs).templates] == [False, False]
    add_run(store, blobs, 4, "jacket-7")
    assert [each.one_answer for each in frozen(store, templates, blobs).templates] == [True, False]
    add_run(store, blobs, 5, "jacket-5")
    assert [each.one_answer for each in frozen(store, templates, blobs).templates] == [False, False]


def test_freezing_reads_the_newest_sweeps_of_the_site_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    store, blobs = a_store(), MemoryBlobs()
    for seed, answer in enumerate(("jacket-5", "jacket-7", "jacket-7", "jacket-7")):
        add_run(store, blobs, seed, answer)
    asked = SweepPlanned(sweep="predict-1", environment=SITE, templates=(), specs=(), artifact=EMPTY, rng_seed=7)
    add(store, "sweep/predict-1", asked)
    elsewhere = SweepPlanned(sweep="s9", environment="quay", templates=(), specs=(), artifact=EMPTY, rng_seed=7)
    add(store, "sweep/s9", elsewhere)
    assert not frozen(store, [template("t1")], blobs).templates[0].one_answer
    monkeypatch.setattr(repeats, "MOST_SWEEPS", 3)
    assert frozen(store, [template("t1")], blobs).templates[0].one_answer


def test_a_known_solution_is_believed_before_recorded_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    store, blobs = a_store(), MemoryBlobs()
    for seed in range(3):
        add_run(store, blobs, seed, "jacket-7")
    report = probed(monkeypatch)
    solved = ProbeResult(name="oracle_agent", outcome="passed", detail="all of them")
    record(store, report.model_copy(update={"probes": (*report.probes, solved)}), "test")
    assert not frozen(store, [template("t1")], blobs).templates[0].one_answer


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
