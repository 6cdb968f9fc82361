"""What-if: empty under what was in force, and what was worked out by hand under anything else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from agents.envs.sites.site import OracleGrade, Simulation
from agents.rollouts.errors import UnknownVerifier
from agents.rollouts.regrade import VERIFIERS, Verifier
from api.cli.whatif import describe_what_if
from api.errors import BadDefinition
from api.history.whatif.compose import if_reward, if_rule
from api.history.whatif.definitions import (
    Prices,
    RewardDefinition,
    as_toml,
    read_reward,
    read_rule,
    reward_in_force,
    rule_in_force,
)
from api.history.whatif.report import WhatIf, Worth
from api.history.whatif.revalue import revalue
from api.history.whatif.verdicts import Judged, verdicts
from eventlog.events import (
    ChampionPointed,
    FrozenModel,
    PairedRule,
    PromotionRule,
    RewardGraded,
    SeedsRule,
)
from eventlog.memory import MemoryStore
from eventlog.store import EventStore, Position
from gate.decision import tell_reasons
from projections.counterfactual import under_rewards
from projections.moves import StatusChange
from tests.golden.test_golden_samples import golden_log, sample
from tests.unit.test_agent_samples import EMPTY, a_store, add, decide_rewrite, propose
from tests.unit.test_folds_samples import told as log_of
from tests.unit.test_gate_promote import a_verdict
from tests.unit.test_time_samples import GOLDEN_STORE, golden_blobs, views_of

HEAD = Position(652)
FIX = "rw-80280fbd00d0"
FIRST = "marketplace-2__marketplace.lead_filtered_search__seed{}__s1"
ENDS = {event.run: event.end_state for event in (item.event for item in golden_log()) if event.type == "RunFinished"}


def ruled(rule: PromotionRule, upto: Position = HEAD, store: EventStore = GOLDEN_STORE) -> WhatIf:
    return if_rule(store, views_of(store), rule, upto)


def rewarded(
    reward: RewardDefinition,
    upto: Position = HEAD,
    known: Mapping[str, Verifier] = VERIFIERS,
    erased: str | None = None,
) -> WhatIf:
    return if_reward(GOLDEN_STORE, golden_blobs(erased=erased), views_of(GOLDEN_STORE), reward, upto, known)


# In force: nothing would differ --------------------------------------------------------------------------------------


@pytest.mark.parametrize("upto", [0, 1, 10, 385, 386, 395, 396, 500, 648, 649, 650, 652])
def test_under_what_was_in_force_the_report_is_empty(upto: int) -> None:
    at = Position(upto)
    assert ruled(rule_in_force(GOLDEN_STORE, at), at).is_empty
    assert rewarded(reward_in_force(GOLDEN_STORE, at), at).is_empty
    assert rewarded(RewardDefinition(), at).is_empty
    _, line = describe_what_if(ruled(SeedsRule(), at))
    assert line.startswith("Nothing would differ")


def test_a_reward_of_someone_else_that_follows_no_formula_stays_as_it_was() -> None:
    store = a_store()
    reward = next(item.event for item in golden_log() if item.event.type == "RewardGraded")
    odd = reward.model_copy(update={"run": "ext-1", "cost": 7, "value": 123})
    add(store, "run/ext-1", odd)
    found = if_reward(store, golden_blobs(), views_of(store), reward_in_force(store, store.head()), store.head())
    assert found.is_empty


# Another rule --------------------------------------------------------------------------------------------------------


def test_two_wins_would_have_promoted_at_the_second_win() -> None:
    (found,) = ruled(SeedsRule(wins_to_promote=2)).rewrites
    assert found.rewrite == FIX
    assert found.actual == (
        StatusChange(10, "candidate", 0, 0),
        StatusChange(386, "promoted", 3, 0),
        StatusChange(652, "quarantined", 4, 0),
    )
    assert found.would == (
        StatusChange(10, "candidate", 0, 0),
        StatusChange(385, "promoted", 2, 0),
        StatusChange(652, "quarantined", 4, 0),
    )
    assert found.wins == (FIRST.format(6), FIRST.format(7))


def a_history(*outcomes: bool) -> MemoryStore:
    """One rewrite of the step `open` and its trials."""
    store = a_store()
    add(store, "champion", ChampionPointed(artifact=EMPTY, by="genesis", reason="bare", evaluation=None))
    propose(store, "rw-a")
    decide_rewrite(store, "rw-a", *outcomes)
    return store


def asked_of(store: MemoryStore, rule: PromotionRule) -> WhatIf:
    return if_rule(store, views_of(store), rule, store.head())


def test_a_softer_rule_on_losses_keeps_what_was_demoted() -> None:
    store = a_history(True, True, True, False, False)
    (found,) = asked_of(store, SeedsRule(losses_to_demote=3)).rewrites
    assert [turn.status for turn in found.actual] == ["candidate", "promoted", "demoted"]
    assert [turn.status for turn in found.would] == ["candidate", "promoted"]


def test_a_rule_over_a_quarantine_keeps_the_quarantine() -> None:
    found = {item.rewrite: item.would for item in ruled(SeedsRule(wins_to_promote=1)).rewrites}
    assert found[FIX][-1] == StatusChange(652, "quarantined", 4, 0)


# Another reward ------------------------------------------------------------------------------------------------------


def test_a_dearer_dollar_takes_more_from_each_reward() -> None:
    found = rewarded(RewardDefinition(lambda_per_dollar=200_000))
    assert len(found.rewards) == 72
    for item in found.rewards:
        assert item.actual.cost is not None
        assert item.would == Worth(
            item.actual.score, item.actual.passed, item.actual.cost, item.actual.score - item.actual.cost // 5
        )
    assert (found.rewrites, found.verdicts) == ((), ())


def test_weights_weigh_score_and_penalty() -> None:
    found = rewarded(RewardDefinition(score_weight=500_000, penalty_weight=2_000_000))
    for item in found.rewards:
        penalty = (item.actual.cost or 0) // 10
        assert item.would.value == (item.actual.score * 500_000 - penalty * 2_000_000) // 1_000_000


def test_other_prices_make_costs_again_from_usage_and_the_verdict_from_costs() -> None:
    prices = Prices(per_action=100_000, per_second=0, per_thousand_input_tokens=0, per_thousand_output_tokens=0)
    found = rewarded(RewardDefinition(prices=prices))
    steps = {item.event.run: item.event.usage.actions for item in golden_log() if item.event.type == "RunFinished"}
    assert {item.run: item.would.cost for item in found.rewards} == {
        run: 100_000 * actions for run, actions in steps.items() if actions is not None
    }
    (verdict,) = found.verdicts
    assert (verdict.actual, verdict.would) == ("promote", "promote")
    figures = {figure.name: (figure.actual, figure.would) for figure in verdict.figures}
    reached = next(item.event.verdict for item in golden_log() if item.event.type == "VerdictReached")
    assert figures["challenger cost"] == (reached.challenger.cost, 10_500_000)
    assert figures["champion compared_cost"] == (reached.champion.compared_cost, 1_900_000)
    assert found.champion is None


def test_trials_come_to_what_their_runs_would_have_come_to() -> None:
    runs = {"run": "r", "control_runs": ["a", "b", "c"], "control_successes": 1}
    trials = [
        sample("RewriteWon", rewrite="w", **runs),
        sample("RewriteLost", rewrite="w", **runs),
        sample("PieceTried", won=True, **runs),
    ]
    mapping = under_rewards({}, {"r": False, "a": False, "b": True, "elsewhere": True})
    lost = trials[1].model_dump() | {"control_successes": 1}
    found = [mapping(recorded) for recorded in log_of(*trials)]
    plain = [None if item is None else item.event.model_dump() for item in found]
    assert plain == [lost, lost, trials[2].model_dump() | {"won": False}]
    (turned,) = [under_rewards({}, {"c": True})(recorded) for recorded in log_of(trials[0])]
    assert turned is not None
    assert turned.event == trials[0].model_copy(update={"control_successes": 2})


def test_a_pass_mark_of_zero_turns_losses_into_wins_and_the_verdict_with_them() -> None:
    found = rewarded(RewardDefinition(pass_score=0), Position(650))
    assert {item.would.passed for item in found.rewards} == {True}
    assert all(item.actual.passed is False for item in found.rewards)
    (rewrite,) = found.rewrites
    assert (rewrite.rewrite, rewrite.would[-1].status) == ("rw-eea991d69318", "promoted")
    (verdict,) = found.verdicts
    assert (verdict.actual, verdict.would) == ("promote", "hold")
    assert verdict.reasons[0].startswith("cost $0.021 is more than 1.5 times")
    assert found.champion is not None
    assert (found.champion.actual, found.champion.would) == ("base@395", "base@0")


def test_of_a_verdict_whose_figures_are_sealed_a_what_if_tells_the_decision_alone() -> None:
    near = a_verdict("hold").model_copy(update={"mean_delta": 30_000})
    better = near.model_copy(update={"mean_delta": 170_000, "reasons": ("p 0.2 is above the alpha 0.005",)})
    assert verdicts(Judged({"ev": near}, None), Judged({"ev": better}, None), untold={"ev"}) == ()
    assert verdicts(Judged({"ev": near}, None), Judged({"ev": better}, None)) != ()
    would = a_verdict("promote")
    (only,) = verdicts(Judged({"ev": near}, None), Judged({"ev": would}, None), untold={"ev"})
    assert (only.would, only.reasons, only.figures) == ("promote", tell_reasons(would), ())


def shaped_under(
    definition: RewardDefinition, erased: str | None = None
) -> dict[str, tuple[RewardGraded, RewardGraded]]:
    """Each reward as it was and as it would be, by run."""
    found = revalue(GOLDEN_STORE, golden_blobs(erased=erased), definition, HEAD).rewards
    events = {item.position: item.event for item in golden_log() if item.event.type == "RewardGraded"}
    return {reward.run: (events[position], reward) for position, reward in found.items()}


def test_a_shaped_return_is_made_again_of_what_it_is_made_of() -> None:
    for before, after in shaped_under(RewardDefinition(lambda_per_dollar=500_000)).values():
        assert before.shaped is not None
        assert after.shaped is not None
        assert before.terms.penalty is not None
        assert after.terms.penalty is not None
        assert after.shaped - before.shaped == before.terms.penalty - after.terms.penalty != 0
        assert (after.terms.process, after.terms.progress) == (before.terms.process, before.terms.progress)


def test_a_run_that_would_not_have_passed_came_as_far_as_its_steps_went_well() -> None:
    """Every planned step of a passed run went well: it loses what passing pays, and keeps its progress."""
    passed_before = [item.event for item in golden_log() if item.event.type == "RewardGraded" and item.event.passed]
    assert passed_before
    nobody = {"nobody-1": lambda instance, task: replace(instance.grade(task), passed=False)}
    found = revalue(GOLDEN_STORE, golden_blobs(), RewardDefinition(version="nobody-1"), HEAD, nobody).rewards
    after = {reward.run: reward for reward in found.values()}
    for before in passed_before:
        assert before.shaped is not None
        assert after[before.run].shaped == before.shaped - 1_000_000
        assert after[before.run].terms.progress == 1_000_000


def test_where_the_plan_was_erased_nothing_is_shaped() -> None:
    plans = {item.event.run: item.event.plan for item in golden_log() if item.event.type == "RunStarted"}
    plan = next(iter(plans.values()))
    found = shaped_under(RewardDefinition(lambda_per_dollar=500_000), erased=plan)
    for run, (_, after) in found.items():
        assert (after.shaping is None) == (after.shaped is None) == (plans[run] == plan)


def test_a_champion_pointed_by_hand_stays_whatever_the_verdict_would_have_been() -> None:
    assert rewarded(RewardDefinition(pass_score=0)).champion is None


def _none_pass(_instance: Simulation, _task: str) -> OracleGrade:
    return OracleGrade(passed=False, score_e4=0, reasons=("too strict",), diff={})


STRICT: Mapping[str, Verifier] = {**VERIFIERS, "strict-1": _none_pass}


def test_another_verifier_grades_the_recorded_end_states_again() -> None:
    found = rewarded(RewardDefinition(version="strict-1"), Position(650), STRICT)
    passed = [item.event.run for item in golden_log() if item.event.type == "RewardGraded" and item.event.passed]
    assert [item.run for item in found.rewards] == passed
    assert {(item.would.score, item.would.passed) for item in found.rewards} == {(0, False)}
    assert {item.rewrite: [turn.status for turn in item.would] for item in found.rewrites} == {FIX: ["candidate"]}
    assert [(item.actual, item.would) for item in found.verdicts] == [("promote", "hold")]
    assert found.champion is not None
    assert (found.champion.actual, found.champion.would) == ("base@395", "base@0")


def test_the_verifier_that_graded_grades_the_same_again() -> None:
    twin = {**VERIFIERS, "oracle-2": VERIFIERS["oracle-1"]}
    found = rewarded(RewardDefinition(version="oracle-2"), HEAD, twin)
    assert found.is_empty


def test_what_was_erased_cannot_be_graded_and_keeps_its_reward() -> None:
    run = FIRST.format(6)
    found = rewarded(RewardDefinition(version="strict-1"), HEAD, STRICT, erased=ENDS[run])
    shared = {other for other, end in ENDS.items() if end == ENDS[run]}
    assert {(item.run, item.why) for item in found.ungraded} == {(each, "its end state was erased") for each in shared}
    assert not {item.run for item in found.rewards} & shared


def test_a_verifier_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UnknownVerifier, match="No verifier has the version 'oracle-9': expected one of oracle-1"):
        rewarded(RewardDefinition(version="oracle-9"))


# Files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "definition",
    [
        SeedsRule(wins_to_promote=7),
        PairedRule(looks=(5, 9), least_v=12),
        RewardDefinition(
            lambda_per_dollar=-5,
            version='or"acle',
            prices=Prices(per_action=1, per_second=2, per_thousand_input_tokens=3, per_thousand_output_tokens=4),
        ),
    ],
    ids=["seeds", "paired", "reward"],
)
@pytest.mark.parametrize("ending", ["toml", "json"])
def test_what_is_printed_reads_back_as_itself(definition: FrozenModel, ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"asked.{ending}"
    plain = definition.model_dump(mode="json", exclude_none=True)
    file.write_text(as_toml(definition) if ending == "toml" else json.dumps(plain))
    assert (read_rule(file) if isinstance(definition, SeedsRule | PairedRule) else read_reward(file)) == definition


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("rule.toml", b"wins_to_promote = 3\nwins = 2", "wins: Extra inputs are not permitted"),
        ("rule.toml", b"wins_to_promote = -1", "wins_to_promote: Input should be greater than or equal to 0"),
        ("rule.toml", b'wins_to_promote = "3"', "wins_to_promote: Input should be a valid integer"),
        ("rule.toml", b"wins_to_promote = 3.0", "wins_to_promote: Input should be a valid integer"),
        ("rule.toml", b'name = "mine"', "name: Input should be 'seeds'"),
        ("rule.toml", b"wins_to_promote", "it is not TOML"),
        ("rule.json", b"{", "it is not JSON"),
        ("rule.json", b"[3]", "Input should be a valid dictionary"),
        ("rule.toml", b"\xff\xfe", "it is not TOML"),
        ("rule.toml", b"", "it is empty"),
    ],
)
def test_a_file_that_is_no_rule_says_where_and_what_is_expected(
    name: str, content: bytes, words: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(BadDefinition) as raised:
        read_rule(file)
    assert words in str(raised.value)
    assert "wins_to_promote, losses_to_demote, cold_after_days" in str(raised.value)
    assert "flywheel what-if --print-rule" in str(raised.value)


def test_the_rule_in_force_is_that_of_the_newest_proposal() -> None:
    store = a_store()
    assert rule_in_force(store, store.head()) == PairedRule.current()
    propose(store, "rw-a", rule=SeedsRule(wins_to_promote=9))
    propose(store, "rw-b", rule=SeedsRule(wins_to_promote=4))
    assert rule_in_force(store, store.head()) == SeedsRule(wins_to_promote=4)
    assert rule_in_force(store, Position(1)) == SeedsRule(wins_to_promote=9)


def test_a_report_names_a_few_and_says_how_many_more() -> None:
    found = rewarded(RewardDefinition(pass_score=0))
    text = list(describe_what_if(found))
    assert any(line.endswith("and 38 more; --json lists all") for line in text)
    assert any("Runs are not played again" in line for line in text)
    assert any(re.search(r"champion compared_cost: \$0\.0038\d* → \$0\.0054", line) for line in text)
    tiny = tuple(replace(each, reasons=("p 0.000000953675 is at most alpha",)) for each in found.verdicts)
    assert any("hold: p < 0.000001 is" in line for line in describe_what_if(replace(found, verdicts=tiny)))
