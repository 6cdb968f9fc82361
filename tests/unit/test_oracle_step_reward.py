"""The rewards of the seeds: steps and end by the oracle, the parent's gate where there is none."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.envs import sites
from agents.envs.sites.known import KNOWN
from agents.envs.sites.marketplace.further_oracle import DRAW
from agents.envs.sites.marketplace.oracle import LEAD, PHONE
from agents.rewards import (
    DEFAULT_OPS,
    EpisodeState,
    Grading,
    GymResult,
    Info,
    ListingReward,
    RewardSignal,
    RunResult,
    SyntheticEnvReward,
    expected_ops,
    mutation_key,
    oracle_step_reward,
    returns,
)
from agents.suites.tasks import NO_OPERATIONS
from benchmarks.shipped import OPERATIONS as TABLES
from benchmarks.shipped import PLANS

MICRO = 1_000_000
SITES = Path(sites.__path__[0])
REWARD = SyntheticEnvReward()
LEADS = {"lead_submitted"}
GRADED = Grading(task_id="t", passed=True, score_micro=MICRO, reasons=(), diff={})


def mutation(operation: str = "lead_submitted", target: str = "7", **more: object) -> dict[str, object]:
    return {"id": 1, "operation": operation, "target_type": "boat", "target_id": target, "payload": {}, **more}


def step(
    delta: Any, kind: str | None = "submit_lead", state: EpisodeState | None = None, reward: SyntheticEnvReward = REWARD
) -> RewardSignal:
    info = Info(oracle_mutations_delta=delta)
    if kind is not None:
        info["oracle_step_kind"] = kind
    return reward.step("a", GymResult(info), state or EpisodeState())


@pytest.mark.parametrize("nothing", [None, [], (), iter(())])
def test_no_delta_is_no_signal(nothing: Any) -> None:
    assert oracle_step_reward(nothing, LEADS) == 0


def test_each_matching_mutation_pays_a_tenth() -> None:
    assert oracle_step_reward([mutation()], LEADS) == 100_000
    assert oracle_step_reward([mutation(), mutation("phone_revealed"), mutation()], LEADS) == 200_000
    assert oracle_step_reward([mutation()], LEADS, value=7) == 7
    assert oracle_step_reward([mutation()], frozenset()) == 0
    assert oracle_step_reward(iter([mutation()]), ["lead_submitted", "other"]) == 100_000


@pytest.mark.parametrize("bad", [None, 3, "lead_submitted", [], {}, {"operation": 3}, {"operation": None}])
def test_what_is_no_mutation_counts_for_nothing(bad: object) -> None:
    assert oracle_step_reward([bad, mutation()], LEADS) == 100_000
    assert mutation_key(bad) is None


def test_a_site_that_says_op_is_understood() -> None:
    assert oracle_step_reward([{"op": "lead_submitted"}], LEADS) == 100_000


OPERATIONS = st.sampled_from([*sorted(expected_ops(DEFAULT_OPS, None)), "boat_deleted"])
MUTATIONS = st.builds(mutation, OPERATIONS, st.sampled_from("1234567"), id=st.integers(1, 99), at=st.integers(0, 9))
DELTAS = st.lists(MUTATIONS, max_size=8)
KINDS = st.sampled_from([*DEFAULT_OPS, "unheard_of", None])


@given(DELTAS, DELTAS, st.integers(0, MICRO))
def test_the_pure_function_is_linear_in_the_matching_mutations(one: list[Any], other: list[Any], value: int) -> None:
    apart = oracle_step_reward(one, LEADS, value) + oracle_step_reward(other, LEADS, value)
    assert oracle_step_reward([*one, *other], LEADS, value) == apart
    assert oracle_step_reward(one, LEADS, value) == value * oracle_step_reward(one, LEADS, 1)


def played(deltas: list[tuple[list[Any], str | None]], reward: SyntheticEnvReward = REWARD) -> EpisodeState:
    """The state after these steps."""
    state = EpisodeState()
    for number, (delta, kind) in enumerate(deltas):
        info = Info(oracle_mutations_delta=delta)
        if kind is not None:
            info["oracle_step_kind"] = kind
        action, result = f"step {number}", GymResult(info)
        state = state.after(action, result, reward.step(action, result, state))
    return state


@given(st.lists(st.tuples(DELTAS, KINDS), max_size=6), st.data())
def test_repeating_any_suffix_of_mutations_earns_nothing(
    steps: list[tuple[list[Any], str | None]], data: st.DataObject
) -> None:
    before = played(steps)
    suffix = steps[data.draw(st.integers(0, len(steps))) :]
    again = [([{**m, "id": 100 + m["id"], "payload": {"again": 1}} for m in delta], kind) for delta, kind in suffix]
    after = played([*steps, *again])
    assert after.extras.get("oracle_step_total", 0) == before.extras.get("oracle_step_total", 0)


@given(st.lists(MUTATIONS, max_size=60), KINDS)
def test_no_run_earns_more_from_steps_than_half_a_score(delta: list[Any], kind: str | None) -> None:
    total = played([([each], kind) for each in delta]).extras.get("oracle_step_total", 0)
    assert 0 <= total <= 500_000


@given(DELTAS, KINDS)
def test_a_change_twice_within_one_step_is_paid_once(delta: list[Any], kind: str | None) -> None:
    assert step(delta * 2, kind).value == step(delta, kind).value


def test_the_key_of_a_change_is_its_operation_and_target() -> None:
    assert (
        mutation_key(mutation())
        == ("lead_submitted", "boat", "7")
        == mutation_key(mutation(id=9, payload={"x": 1}, at=3))
    )
    assert mutation_key({"operation": "o"}) == ("o", "", "")
    assert step([mutation(), mutation(target="8"), mutation("phone_revealed")]).components["oracle_step"] == 200_000


@pytest.mark.parametrize(
    ("kind", "paid"),
    [("submit_lead", 100_000), ("phone_reveal", 100_000), ("filter", 0), ("navigate", 0), ("unheard_of", 0),
     (None, 200_000)],
)  # fmt: skip
def test_a_step_is_paid_for_what_its_kind_is_meant_to_cause(kind: str | None, paid: int) -> None:
    found = step([mutation("lead_submitted"), mutation("phone_revealed"), mutation("boat_deleted")], kind)
    assert found.components.get("oracle_step", 0) == paid == found.value
    assert ("oracle_step" in found.components) == bool(paid)


@pytest.mark.parametrize("delta", [None, [], [3, None]])
def test_a_site_that_could_not_be_read_gives_a_step_nothing(delta: Any) -> None:
    assert step(delta) == RewardSignal()


def test_the_total_of_steps_and_what_was_paid_is_carried_along() -> None:
    state = played([([mutation()], "submit_lead"), ([mutation("consent_set", "9")], "consent"), ([], "filter")])
    assert state.extras["oracle_step_total"] == 200_000
    assert state.extras["oracle_paid"] == {("lead_submitted", "boat", "7"), ("consent_set", "boat", "9")}
    assert state.actions == ("step 0", "step 1", "step 2")


def test_a_table_of_another_site_is_given_at_construction() -> None:
    reward = SyntheticEnvReward(expected_ops_by_step_kind={"reply": frozenset({"replied"})}, oracle_step_value=5)
    assert step([mutation("replied")], "reply", reward=reward).components == {"oracle_step": 5}
    assert step([mutation()], None, reward=reward) == RewardSignal()


def test_the_default_table_is_that_of_the_seeds() -> None:
    assert {kind: sorted(ops) for kind, ops in DEFAULT_OPS.items()} == {
        "filter": [],
        "navigate": [],
        "submit_lead": ["lead_submitted"],
        "phone_reveal": ["phone_revealed"],
        "consent": ["consent_set"],
    }


def recorded_by(site: str) -> set[str]:
    """The operations that a site's code writes into its journal, found in its source."""
    found: set[str] = set()
    for file in (SITES / site).glob("*.py"):
        module = importlib.import_module(f"agents.envs.sites.{site}.{file.stem}")
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in {"record", "_record"}:
                first = node.args[0]
                named = getattr(module, first.id, None) if isinstance(first, ast.Name) else None
                found |= {named} if isinstance(named, str) else set()
    return found


@pytest.mark.parametrize("site", KNOWN)
def test_a_sites_table_names_what_it_records_and_nothing_else(site: str) -> None:
    assert expected_ops(TABLES[site].table, None) == recorded_by(site) != set()


def test_the_operations_of_a_site_are_found_in_its_source() -> None:
    assert {LEAD, PHONE, DRAW} < recorded_by("marketplace")


@pytest.mark.parametrize("task", PLANS)
def test_every_planned_step_has_a_kind_and_the_last_one_is_of_a_kind_that_changes_something(task: str) -> None:
    site = task.partition(".")[0]
    kinds = [TABLES[site].kind_of(step.type, step.label) for step in PLANS[task]]
    assert None not in kinds
    assert {*kinds} <= {*TABLES[site].table, "fill"}
    assert expected_ops(TABLES[site].table, kinds[-1])
    assert len({expected_ops(TABLES[site].table, kind) for kind in kinds} - {frozenset()}) == 1


def test_a_caption_that_is_not_known_has_no_kind() -> None:
    assert TABLES["marketplace"].kind_of("submit", "Other") is NO_OPERATIONS.kind_of("submit", "Search") is None


def ended(terminal: Any, result: RunResult | None = None, reward: Any = REWARD) -> RewardSignal | None:
    found: RewardSignal | None = reward.episode(result or RunResult(), EpisodeState().with_grade(terminal))
    return found


def test_the_end_of_a_run_is_its_f1_and_a_bonus_for_passing() -> None:
    passed, failed = ended(GRADED), ended(Grading(passed=False, score_micro=666_700))
    assert passed == RewardSignal({"oracle_score": MICRO, "oracle_passed_bonus": MICRO})
    assert failed == RewardSignal({"oracle_score": 666_700})
    half = SyntheticEnvReward(score_weight=500_000, pass_bonus=3)
    assert ended(GRADED, reward=half) == RewardSignal({"oracle_score": 500_000, "oracle_passed_bonus": 3})
    assert ended(Grading(passed=False, score_micro=0)) == RewardSignal({"oracle_score": 0})


@pytest.mark.parametrize(
    "bad",
    [{"error": "it does not answer"}, {**GRADED, "error": "half"}, {}, {"passed": True}, {"score_micro": 3},
     {"passed": 1, "score_micro": 3}, {"passed": True, "score_micro": True}, {"passed": True, "score_micro": -1},
     {"passed": True, "score_micro": MICRO + 1}, {"passed": True, "score_micro": 0.5}],
)  # fmt: skip
def test_an_oracle_that_could_not_answer_is_no_reward_and_neither_zero_nor_the_gate(bad: Any) -> None:
    done = RunResult(is_done=True, summary={"make": "x", "price": "1", "url": "/b"})
    assert ended(bad, done) is None
    assert returns(REWARD, [("a", GymResult(Info(oracle_mutations_delta=[mutation()])))], done, bad) is None


def test_without_an_oracle_the_parents_gate_decides_and_what_the_agent_claims_counts_only_there() -> None:
    done = RunResult(is_done=True, summary={"make": "Bayliner", "price": " ", "url": "/b"})
    parent = ListingReward()
    for reward in (REWARD, parent):
        found = reward.episode(done, EpisodeState())
        assert found == RewardSignal({"gate_done": 500_000, "gate_fields": 500_000 * 2 // 3})
        assert reward.episode(RunResult(summary=done.summary), EpisodeState()) == RewardSignal(
            {"gate_done": 0, "gate_fields": 0}
        )
    full = ListingReward(required_fields=()).episode(RunResult(is_done=True), EpisodeState())
    assert full is not None
    assert full.value == MICRO
    graded = ended(GRADED, done)
    assert graded is not None
    assert not [name for name in graded.components if name.startswith("gate")]


def test_it_goes_wherever_its_parent_does() -> None:
    assert isinstance(REWARD, ListingReward)
    steps = [("open /a", GymResult(Info(url="http://m.test/a"))), ("x", GymResult(Info(is_malformed=True)))]
    done = RunResult(is_done=True, summary={"make": "m", "price": "1", "url": "/b"})
    assert returns(REWARD, steps, done, None) == returns(ListingReward(), steps, done, None)


def test_manners_cost_and_a_longer_run_earns_no_more_by_being_longer() -> None:
    reward = ListingReward(hosts=frozenset({"m.test"}))
    malformed, away = GymResult(Info(is_malformed=True)), GymResult(Info(url="http://ads.test/"))
    assert reward.step("a", malformed, EpisodeState()).components == {"format": -100_000}
    assert reward.step("a", away, EpisodeState()).components == {"off_site": -500_000}
    assert reward.step("a", GymResult(), EpisodeState(actions=("a", "a"))).components == {"loop": -200_000}
    assert reward.step("a", GymResult(), EpisodeState(actions=("a", "b"))).components == {}
    state, total = EpisodeState(), 0
    for page in range(40):
        result = GymResult(Info(url=f"http://m.test/{page}"))
        signal = reward.step(f"open {page}", result, state)
        state, total = state.after(f"open {page}", result, signal), total + signal.value
    assert total == 250_000


@given(DELTAS, DELTAS)
def test_the_reward_stays_pure(one: list[Any], other: list[Any]) -> None:
    state = played([(one, None)])
    kept = dict(state.extras)
    first, second = step(other, None, state), step(other, None, state)
    assert first == second
    assert dict(state.extras) == kept


@given(st.lists(DELTAS, min_size=40, max_size=40), st.integers(0, 999_900))
def test_no_failed_run_outdoes_a_passed_one_by_what_it_changed(deltas: list[list[Any]], score: int) -> None:
    steps = [(f"s{n}", GymResult(Info(oracle_mutations_delta=delta))) for n, delta in enumerate(deltas)]
    failed = returns(REWARD, steps, RunResult(), Grading(passed=False, score_micro=score))
    passed = returns(REWARD, [], RunResult(), GRADED)
    assert failed is not None
    assert passed is not None
    assert failed.value < passed.value
