"""Stall, budget, convergence, summary, skills, critique, gates: the rules of a delegation loop."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agents.delegation.autonomy import LEVELS, autonomy_of, compliance, config_for
from agents.delegation.budget import (
    TreeCounts,
    allocate_child,
    budget_fraction_remaining,
    can_continue,
    child_fraction,
    limits_of,
    may_promote,
    over_limits,
)
from agents.delegation.convergence import Trend, convergence
from agents.delegation.critique import critique, is_fixpoint, simhash_similarity
from agents.delegation.diagnosis import diagnosis_refusal, hypothesis_status
from agents.delegation.evaluation import appraise, confidence_of, mean_confidence
from agents.delegation.gates import ProposedResult, after_rejections, reject
from agents.delegation.journal import journal_line, lesson_of
from agents.delegation.plan import PlanStep, Subtask
from agents.delegation.refinement import halve_budget, has_no_more_time, loss_of, why_refined_enough
from agents.delegation.results import compared_text, finding_of, key_findings, plain_line, result_bytes
from agents.delegation.skills import (
    catalogue_line,
    catalogue_section,
    references_in,
    resolve_skills,
    skill_name,
    skill_names_in,
    skills_in,
)
from agents.delegation.stall import Stall, detect_stall, similarity
from agents.delegation.summary import SummaryEntry, rolling_summary
from agents.delegation.terminal import terminal_status
from eventlog.events import EvaluationConfig, LoopConfig, LoopLimits, StallDetectionConfig
from projections.delegation.budgets import Amounts, LoopBudget, reserve_amounts, settle_amounts
from projections.delegation.loop_state import Delegated, LoopState

MICRO = 1_000_000
NO_POOL = StallDetectionConfig(strategy_switching=False)
WORDS = " ".join(["word"] * 30)


def signals(
    confidences: list[float], outputs: list[str] | None = None, config: StallDetectionConfig = NO_POOL
) -> list[str]:
    """The signals of a whole run, whose window begins anew at each switch."""
    said, used, begin = list[str](), list[str](), 0
    texts = outputs or [f"{number}" * 40 for number in range(len(confidences))]
    for end in range(1, len(confidences) + 1):
        window = [round(each * MICRO) for each in confidences[begin:end]]
        found = detect_stall(window, texts[begin:end], used, config)
        said.append(found.signal)
        if found.strategy is not None:
            used.append(found.strategy)
            begin = end
    return said


@pytest.mark.parametrize(
    ("confidences", "expected"),
    [
        ([0.3, 0.5, 0.7], ["ok"] * 3),
        ([0.5, 0.51, 0.52], ["ok", "ok", "warn"]),
        ([0.3, 0.36, 0.42, 0.48, 0.54], ["ok"] * 5),  # a steady climb is no stall
        ([0.1, 0.2, 0.3, 0.4, 0.5], ["ok"] * 5),
        ([0.5, 0.51, 0.52, 0.7, 0.8, 0.9], ["ok", "ok", "warn", "ok", "ok", "ok"]),  # one channel stops nothing
        ([0.5, 0.5, 0.5, 0.5, 0.5], ["ok", "ok", "warn", "warn", "warn"]),
        ([0.5, 0.56, 0.5, 0.56], ["ok", "ok", "warn", "warn"]),
        ([0.4, 0.5, 0.46, 0.52], ["ok", "ok", "ok", "warn"]),  # oscillation: up, down, up
        ([0.4], ["ok"]),
    ],
)
def test_the_confidence_channel_alone_warns(confidences: list[float], expected: list[str]) -> None:
    assert signals(confidences) == expected


def test_the_same_output_with_rising_confidence_warns() -> None:
    assert signals([0.3, 0.4, 0.5], ["the same"] * 3) == ["ok", "ok", "warn"]


def test_both_channels_stop_only_without_a_strategy() -> None:
    assert signals([0.5] * 3, ["the same"] * 3) == ["ok", "ok", "stop"]
    pool = StallDetectionConfig()
    found = signals([0.5] * 15, ["the same"] * 15, pool)
    assert found == ["ok", "ok", "switch_strategy"] * 4 + ["ok", "ok", "stop"]


def test_each_strategy_is_taken_once_in_order() -> None:
    config, flat = StallDetectionConfig(), [MICRO // 2] * 3
    used: list[str] = []
    for expected in config.strategies:
        found = detect_stall(flat, ["same"] * 3, used, config)
        assert (found.signal, found.strategy) == ("switch_strategy", expected)
        used.append(expected)
    assert detect_stall(flat, ["same"] * 3, used, config).signal == "stop"


def test_empty_outputs_are_no_second_channel_and_a_detector_that_is_off_says_ok() -> None:
    assert detect_stall([MICRO // 2] * 3, [""] * 3, (), NO_POOL) == Stall("warn", confidence_flat=True)
    off = StallDetectionConfig(enabled=False)
    assert detect_stall([0] * 9, ["same"] * 9, (), off).signal == "ok"


@pytest.mark.parametrize(("first", "second", "expected"), [("", "", 1.0), ("abc", "", 0.0), ("abc", "abc", 1.0)])
def test_similarity_of_empty_outputs(first: str, second: str, expected: float) -> None:
    assert similarity(first, second) == expected


def test_only_the_first_two_thousand_characters_are_compared() -> None:
    assert similarity("x" * 2_000 + "a" * 500, "x" * 2_000 + "b" * 500) == 1.0


@given(st.lists(st.integers(0, MICRO), min_size=1, max_size=12))
def test_a_run_that_says_something_new_each_time_is_never_stopped(confidences: list[int]) -> None:
    texts = [chr(0x4E00 + 97 * number) * 50 for number in range(len(confidences))]
    for end in range(1, len(confidences) + 1):
        assert detect_stall(confidences[:end], texts[:end], (), NO_POOL).signal in {"ok", "warn"}


def trend(*confidences: float, iteration: int = 9, pending: int = 0, left: int = 0, findings: Any = None) -> Trend:
    micro = [round(each * MICRO) for each in confidences]
    return Trend(iteration, micro, findings or [str(n) for n in range(len(micro))], pending, left)


@pytest.mark.parametrize(
    ("given_trend", "expected"),
    [
        (trend(0.8, 0.82), "confidence_plateau"),
        (trend(0.8, 0.82, left=2), "confidence_plateau"),  # at the accept threshold
        (trend(0.1, 0.1, left=1), None),  # not satisfactory, and a strategy is left
        (trend(0.1, 0.1), "confidence_plateau"),
        (trend(0.96, 0.96), None),
        (trend(0.5, 0.8), None),
        (trend(0.8, 0.82, iteration=4), None),
        (trend(0.8, 0.82, iteration=7, pending=5), None),
        (trend(0.8, 0.82, iteration=8, pending=5), "confidence_plateau"),
        (trend(0.99, 0.2, 0.96, findings=["same"] * 3), "identical_findings"),
        (trend(0.8), None),
    ],
)
def test_convergence_waits_for_its_floor_and_for_strategies(given_trend: Trend, expected: str | None) -> None:
    assert convergence(given_trend, LoopConfig()) == expected


def spent(**amounts: int) -> LoopBudget:
    return LoopBudget(spent=Amounts(**amounts))


def test_the_defaults_of_the_budget_are_those_of_the_seed() -> None:
    limits = LoopLimits()
    assert (limits.max_loops, limits.max_total_workers, limits.max_total_tokens) == (100, 500, 10_000_000)
    assert (limits.max_wall_time, limits.max_tool_calls, limits.max_depth) == (3_600, 1_500, 4)
    assert (limits.max_concurrent_submanagers, limits.max_total_submanagers_per_run) == (3, 6)


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        (spent(loops=100), "max_loops reached"),
        (spent(workers=500), "max_total_workers reached"),
        (spent(wall=3_600 * MICRO), "max_wall_time exceeded"),
        (spent(tokens=10_000_000), "max_total_tokens reached"),
        (spent(tool_calls=1_500), "max_tool_calls reached"),
    ],
)
def test_each_limit_ends_the_loop(budget: LoopBudget, why: str) -> None:
    found = can_continue(budget, LoopLimits())
    assert found is not None
    assert found.why == why
    assert budget_fraction_remaining(budget, LoopLimits()) == 0


def test_a_limit_of_nothing_allows_nothing() -> None:
    assert can_continue(LoopBudget(), LoopLimits(max_total_tokens=0)) is not None
    assert budget_fraction_remaining(LoopBudget(), LoopLimits(max_tool_calls=0)) == 0


def test_the_fraction_is_the_least_of_all_dimensions() -> None:
    assert budget_fraction_remaining(spent(loops=10, tokens=9_000_000, workers=5), LoopLimits()) == 100_000


def test_of_twenty_threads_with_a_hundred_tokens_each_fifteen_fit_into_fifteen_hundred() -> None:
    limits, lock = LoopLimits(max_total_tokens=1_500), threading.Lock()
    budgets, passed = [LoopBudget()], list[str]()

    def reserve(name: str) -> None:
        with lock:
            wanted = Amounts(tokens=100)
            if over_limits(budgets[0], limits, wanted) is None:
                budgets[0] = reserve_amounts(budgets[0], name, wanted)
                passed.append(name)

    threads = [threading.Thread(target=reserve, args=(str(number),)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(passed) == 15
    assert budgets[0].spent_and_reserved.tokens == 1_500


def test_a_settlement_releases_what_was_reserved_and_a_second_one_books_again() -> None:
    budget = settle_amounts(reserve_amounts(LoopBudget(), "a", Amounts(tokens=500)), "a", Amounts(tokens=180))
    assert (budget.spent_and_reserved.tokens, budget.pending) == (180, {})
    assert settle_amounts(budget, "a", Amounts(tokens=50)).spent_and_reserved.tokens == 230


def test_a_child_gets_its_share_of_what_is_left() -> None:
    limits = LoopLimits(max_total_tokens=1_000, max_wall_time=600)
    budget = spent(loops=20, tokens=200, wall=100 * MICRO)
    child = allocate_child(budget, limits, 500_000)
    assert child is not None
    assert (child.max_loops, child.max_total_tokens, child.max_wall_time) == (40, 400, 500)
    assert child.max_depth == limits.max_depth


@pytest.mark.parametrize(("fraction", "loops"), [(1_000, 5), (2 * MICRO, 95), (300_000, 30)])
def test_a_childs_fraction_is_clamped(fraction: int, loops: int) -> None:
    child = allocate_child(LoopBudget(), LoopLimits(), fraction)
    assert child is not None
    assert child.max_loops == loops


def test_nothing_floors_to_unlimited() -> None:
    assert allocate_child(LoopBudget(), LoopLimits(max_total_tokens=2), 300_000) is None
    assert allocate_child(spent(tool_calls=1_500), LoopLimits(), 300_000) is None


def test_siblings_share_what_sub_managers_get() -> None:
    assert [child_fraction(LoopLimits(), number) for number in (1, 2, 4)] == [300_000, 300_000, 200_000]
    assert [child_fraction(LoopLimits(), number, 500_000) for number in (1, 2)] == [500_000, 400_000]


def test_depth_is_the_number_of_levels_below_the_first_manager() -> None:
    limits = LoopLimits(max_depth=3)
    assert [may_promote(TreeCounts(0, 0), depth, limits) for depth in (0, 1, 2)] == [None] * 3
    assert may_promote(TreeCounts(0, 0), 3, limits) == "max_depth reached"
    assert may_promote(TreeCounts(6, 0), 0, limits) == "max_total_submanagers_per_run reached"
    assert may_promote(TreeCounts(5, 3), 0, limits) == "max_concurrent_submanagers reached"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 100)), max_size=20))
def test_a_ledger_never_forgets_what_was_spent(moves: list[tuple[str, int]]) -> None:
    budget = LoopBudget()
    for name, tokens in moves:
        before = budget.spent.tokens
        budget = settle_amounts(reserve_amounts(budget, name, Amounts(tokens=tokens)), name, Amounts(tokens=tokens))
        assert budget.spent.tokens == before + tokens
    assert limits_of(LoopLimits()).loops == 100


def test_the_rolling_summary_has_the_sections_of_the_seed() -> None:
    entries = [SummaryEntry(number, number * 100_000, f"f{number}") for number in range(1, 9)]
    text = rolling_summary(entries, 3)
    assert text == (
        "# Rolling Summary\n\n## Progress\n- Iteration: 8\n- Current Confidence: 0.80\n\n## Confidence Trend\n"
        "Iter 3: 0.30 → Iter 4: 0.40 → Iter 5: 0.50 → Iter 6: 0.60 → Iter 7: 0.70 → Iter 8: 0.80\n\n"
        "## Recent Iterations (Detail)\n### Iteration 8\n- Confidence: 0.80\n- Findings: f8\n"
        "### Iteration 7\n- Confidence: 0.70\n- Findings: f7\n### Iteration 6\n- Confidence: 0.60\n- Findings: f6\n\n"
        "## Older Iterations (Summary)\n- Iter 1: confidence=0.10\n- Iter 2: confidence=0.20\n"
        "- Iter 3: confidence=0.30\n- Iter 4: confidence=0.40\n- Iter 5: confidence=0.50\n"
    )
    assert "Older" not in rolling_summary(entries[:2], 3)
    assert "Iteration: 2" in rolling_summary(entries[:2], 3)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("# Skill: BTC Trade CSV Processing\nx", "btc_trade_csv_processing"),
        ("no heading", "unnamed_skill"),
        ("# ../../etc/passwd", "etc_passwd"),
        ("# " + "a" * 100, "a" * 60),
        ("# Ü", "unnamed_skill"),
    ],
)
def test_a_skill_is_named_for_its_heading(text: str, name: str) -> None:
    assert skill_name(text) == name


def test_a_short_skill_is_left_out_and_of_two_with_one_name_the_last_stays() -> None:
    long = f"# Skill: Sums\n{WORDS}"
    result: dict[str, Any] = {"skills_created": ["# Short\nfew words", long, {"content": f"{long} again"}, 7]}
    assert [(each.name, each.text.endswith("again")) for each in skills_in(result, 30)] == [("sums", True)]
    assert skill_names_in({"skills": [long]}, 30) == ("sums",)


def test_the_line_of_the_catalogue_is_the_purpose_or_the_first_line() -> None:
    assert catalogue_line("# Sums\nIntro\n\n## Purpose\n\nAdds numbers.\n## Rules\nx") == "Adds numbers."
    assert catalogue_line("# Sums\n\nIntro") == "Intro"
    assert catalogue_line("## Purpose\n## Rules\nrule") == "rule"
    assert catalogue_section({"b": "two", "a": "one"}) == "## Skills\n- **`a`**: one\n- **`b`**: two"
    assert catalogue_section({}) == ""


def test_a_short_name_resolves_an_inline_skill_stays_and_blanks_are_left_out() -> None:
    inline = f"# Skill: Other\n{WORDS}"
    found = resolve_skills(["Sums", "", "  ", inline, "unknown"], {"sums": "# Sums: the text"})
    assert found == ("# Sums: the text", inline, "unknown")
    assert [each.name for each in references_in(["../../secret.md"])] == ["secret_md"]


def test_a_critique_costs_what_is_missing_and_the_repair_stops_at_a_fixpoint() -> None:
    judged = critique({"findings": "TODO", "error": "x", "empty": " "}, ("table",), 100_000)
    assert {each.category for each in judged.defects} == {"placeholder", "wrong_format", "incomplete", "missing_data"}
    assert (judged.score, judged.is_critical) == (0, True)
    clean = critique({"table": [1]}, ("table",), 900_000)
    assert (clean.score, clean.defects) == (MICRO, ())
    assert is_fixpoint("the same words in the same order again", "the same words in the same order again")
    assert not is_fixpoint("one thing entirely about apples and trees", "quite another report on ships at sea")
    assert simhash_similarity("", "") == 1.0


def completion(result: Any, **facts: Any) -> ProposedResult:
    judged = facts.get("confidence")
    return ProposedResult(result, facts.get("plan", ()), facts.get("critiques", ()), facts.get("verdict"), judged)


@pytest.mark.parametrize(
    ("confidence", "gate", "ends"),
    [
        (900_000, None, False),
        (500_000, None, False),
        (499_999, "evaluation", False),
        (200_000, "evaluation", False),
        (199_999, "evaluation", True),
        (0, "evaluation", True),
        (None, None, False),
    ],
)
def test_the_thresholds_of_an_evaluation_gate_a_completion(
    confidence: int | None, gate: str | None, ends: bool
) -> None:
    found = reject(completion({"answer": "42"}, confidence=confidence), LoopConfig())
    assert (None if found is None else found.gate) == gate
    assert found is None or found.ends == ends
    assert reject(completion({"answer": "42"}, confidence=confidence, verdict=True), LoopConfig()) is None
    off = LoopConfig(evaluation=EvaluationConfig(gates=False))
    assert reject(completion({"answer": "42"}, confidence=confidence), off) is None


PENDING = (PlanStep(Subtask(id="a", description="a"), "pending", 0),)


@pytest.mark.parametrize(
    ("given_completion", "gate"),
    [
        (completion({}), "presence"),
        (completion({"answer": "  "}), "presence"),
        (completion({"answer": "TBD"}), "placeholder"),
        (completion({"answer": "n/a"}), "placeholder"),
        (completion({"answer": f"{WORDS}\n\n{WORDS}"}), "text_loop"),
        (completion({"answer": "42"}, plan=PENDING), "plan"),
        (completion({"answer": "42"}, critiques=(MICRO, 100_000)), "critique"),
        (completion({"answer": "41"}, verdict=False), "oracle"),
        (completion({"answer": "42"}, verdict=True, plan=PENDING, critiques=(0,)), None),
        (completion({"answer": "XXI, stable N/A values"}), None),
        (completion({"answer": "42"}, critiques=(MICRO, MICRO)), None),
        (completion({"count": 42}), None),
    ],
)
def test_a_completion_passes_its_gates_or_is_rejected_by_the_first(
    given_completion: ProposedResult, gate: str | None
) -> None:
    found = reject(given_completion, LoopConfig())
    assert (None if found is None else found.gate) == gate


def test_the_same_rejection_asks_for_a_repair_first_and_ends_the_loop_later() -> None:
    same = ["required_fields: the result lacks report.md"] * 4
    assert [after_rejections(same[:n], 2) for n in range(1, 5)] == ["go_on", "repair", "repair", "end"]
    assert after_rejections(["presence: empty"] * 2, 2) == "end"
    alternating = ["a: x", "b: y"] * 3
    assert [after_rejections(alternating[:n], 2) for n in range(4, 7)] == ["go_on", "go_on", "end"]


def test_diagnoses_are_limited_and_cool_down() -> None:
    assert diagnosis_refusal(["delegate", "diagnose"], 100) is None
    assert diagnosis_refusal(["diagnose", "diagnose"], 100) is not None
    assert diagnosis_refusal(["diagnose", "diagnose", "delegate"], 100) is not None
    assert diagnosis_refusal(["diagnose", "diagnose", "delegate", "delegate"], 100) is None
    assert diagnosis_refusal(["diagnose", "delegate", "delegate"] * 3, 8) is not None
    assert [hypothesis_status(each) for each in (None, 500_000, 500_001)] == ["untested", "refuted", "confirmed"]


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("complete", "complete"),
        ("completed: well", "complete"),
        ("defect_category_cap: text", "partial_complete"),
        ("budget_exhausted", "partial_complete"),
        ("converged: confidence_plateau", "partial_complete"),
        ("something unknown", "partial_complete"),
        ("eval_fail", "failed"),
        ("error in the model", "failed"),
        ("fail: no way", "failed"),
        ("", "aborted"),
        ("sigterm", "aborted"),
    ],
)
def test_a_reason_leads_to_a_status(reason: str, status: str) -> None:
    assert terminal_status(reason) == status


def test_ground_truth_replaces_what_a_worker_reports_and_both_are_kept() -> None:
    found = confidence_of(900_000, 100_000, (0, 0))
    assert (found.micro, found.source, found.reported) == (100_000, "verified", 900_000)
    assert confidence_of(900_000, None, (0, 0)).source == "reported"
    assert confidence_of(None, None, (0, 0)).micro == 0
    assert confidence_of(None, None, (3, 4)).micro == 550_000
    assert (mean_confidence([]), mean_confidence([0, MICRO])) == (0, 500_000)


def test_the_thresholds_say_accept_refine_retry_fail() -> None:
    config = EvaluationConfig()
    found = [appraise(micro, config) for micro in (800_000, 799_999, 499_999, 199_999)]
    assert found == ["accept", "refine", "retry", "fail"]


def test_the_default_configuration_complies_with_the_highest_level_and_each_level_with_itself() -> None:
    assert autonomy_of(LoopConfig()) == "A4"
    assert all(compliance(LoopConfig()).values())
    assert [autonomy_of(config_for(level)) for level in LEVELS] == list(LEVELS)


def test_findings_are_a_line_and_no_text_breaks_an_event() -> None:
    assert finding_of("a", {"findings": [1, 2]}) == "a: 2 items"
    assert finding_of("a", {"findings": ["x"], "summary": "y"}) == "a: 1 items"
    assert finding_of("a", {"findings": 7, "summary": "y"}) == "a: y"  # a first key that is no text blocks nothing
    assert finding_of("a", {}, "it broke") == "a: TOOL ERROR - it broke"
    assert finding_of("a", {"answer": "x" * 200}) == f"a: {'x' * 150}..."
    assert key_findings(["a: x", "b: y"]) == "a: x; b: y"
    assert plain_line("a\0b\ud800\n c") == "a b? c"
    assert "\0" not in plain_line("\0" * 50)
    assert compared_text({"b": 1, "a": 2, "confidence": 0.5}) == compared_text({"a": 2, "b": 1, "confidence": 0.7})
    assert len(result_bytes({"x": "y" * 10**6})) < 10_000


@pytest.mark.parametrize("key", ["skills_created", "skills"])
def test_a_result_that_is_too_long_keeps_its_skills_and_names_the_files_that_it_loses(key: str) -> None:
    files = {"b.md": "y" * 10**6, "../a.md": "x", "c.md": 7}
    stored = json.loads(result_bytes({key: ["# Skill: A", {"content": "# Skill: B"}], "files": files}))
    assert stored["skills_created"] == ["# Skill: A", {"content": "# Skill: B"}]
    assert stored["error"] == "the result was too long, and lost the files b.md, a.md"
    assert "files" not in stored
    assert json.loads(result_bytes({"x": "y" * 10**6}))["error"] == "the result was too long"


def test_the_journal_says_what_came_of_a_decision() -> None:
    assert [lesson_of(each) for each in ((), (100_000,), (900_000,), (500_000,))] == [
        "",
        "consider changing approach",
        "effective",
        "",
    ]
    assert journal_line(3, "delegate", "why", (900_000,)) == "- Iter 3: delegate -> 0.90: why (effective)"


@pytest.mark.parametrize(
    ("losses", "why"),
    [
        ([500, 600], None),
        ([400_000, 390_001, 380_002], "two rounds in a row changed nothing"),
        ([400_000, 420_000, 440_000], "two rounds in a row were worse"),
        ([400_000, 420_000, 300_000], None),
        ([400_000, 420_000, 300_000, 280_000], None),
    ],
)
def test_a_refinement_ends_when_two_rounds_were_worse_or_changed_nothing(losses: list[int], why: str | None) -> None:
    assert why_refined_enough(losses) == why


def test_a_loss_counts_more_than_the_confidence() -> None:
    plain = LoopState(config=LoopConfig().model_dump(mode="json"), status="complete", confidence=800_000)
    judged = Delegated(iteration=1, confidence=800_000, critiques=(MICRO,))
    assert loss_of(plain, LoopBudget()) == 40 * 2_000 + 30 * 5_000
    assert loss_of(structs.replace(plain, history=(judged,)), LoopBudget()) == 80_000
    assert loss_of(structs.replace(plain, history=(judged,), rejected=1), LoopBudget()) == 80_000 + 75_000
    assert loss_of(structs.replace(plain, history=(judged,), status="failed"), LoopBudget()) == 180_000
    assert loss_of(structs.replace(plain, history=(judged,)), spent(loops=50)) == 80_000 + 25_000


def test_rounds_have_twice_the_time_of_the_first_loop() -> None:
    minute = Amounts(wall=60 * MICRO)
    assert not has_no_more_time(Amounts(wall=MICRO), [minute])
    assert has_no_more_time(Amounts(wall=MICRO), [minute, minute])
    assert not has_no_more_time(Amounts(wall=90 * MICRO), [minute, minute])


def test_a_refinement_has_half_of_what_was_spent_and_can_delegate_once() -> None:
    def halved(config: LoopConfig, **amounts: int) -> tuple[int, ...]:
        found = halve_budget(config, Amounts(**amounts), "x" * 400)
        dimensions = (found.max_loops, found.max_total_workers, found.max_total_tokens, found.max_tool_calls)
        return (*dimensions, found.max_wall_time)

    much = {"loops": 9, "workers": 7, "tokens": 100_001, "tool_calls": 1, "wall": 601_000_000}
    assert halved(LoopConfig(), **much) == (4, 3, 50_000, 2, 300)
    assert halved(LoopConfig(), loops=2, tokens=10) == (2, 2, 4 * (4_096 + 134), 2, 60)
    assert halved(LoopConfig(budget=LoopLimits(max_total_tokens=50, max_wall_time=9)), loops=2)[2:] == (50, 2, 9)
