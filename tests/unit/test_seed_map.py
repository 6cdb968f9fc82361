"""docs/seeds.md: every link leads somewhere, every symbol is in its file, every state is known, no name was dropped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "seeds.md"
HEADER = ("seed name", "here", "test", "state")
PARTS_TO_COME = ("Serving", "Delegation loop", "Dashboard")
TO_COME = frozenset(f"to come: {part}" for part in PARTS_TO_COME)
HERE = frozenset({"works", "first form"})

_CELL = re.compile(r"(?<!\\)\|")
_LINK = re.compile(r"\[[^\]]*\]\(([^)#]+)[^)]*\)((?:,? ?`[^`]+`)*)")
_SYMBOL = re.compile(r"`([^`]+)`")

FLYWHEEL = """
Execute → observe → reward → curate → improve → evaluate → promote → repeat|four planes|Environment plane
Agent + control plane|Data plane|Weights plane|Boundary rule|modelio|logprobs|group_id|task_spec|datasets
checkpoint registry|POST /__env__/reset {seed}|GET /__env__/oracle|R = score − λ·cost|RolloutGenerator|Holo3|task_loop
PromotionGate|Baseten|Modal|mantis_agent.learning.rollout_generator|mantis_agent.learning.reward
mantis_agent.learning.promotion_gate|proxy LLM-judge|paired bootstrap|sealed-task regressions|cost budget|rewrite_url
plan_evolution_store|finalize_run_outcomes|3 consecutive wins|apply_plan_overlay|exploration mode|hint_memory|S0|S1
curriculum|allocator|ε-greedy|sources.augur|A_i = (r_i − mean(r)) / (std(r) + eps)
min(ρ_t·A_i, clip(ρ_t, 1±ε)·A_i) − β·KL(π_θ‖π_ref)|ρ_t = exp(logπ_θ − logπ_old)|no value model|registry|Rollback
/v1/predict|_lora_adapter|mantis-trainer-vol:/checkpoints/<algo>|lora_serving|llama-server --lora|.gguf|qwen3_5_moe
convert_lora_to_gguf|_challenger_model|--mmproj|convert_hf_to_gguf|fara|opencua|evocua|--enable-lora|served-model-name
training/eval_harness.py run --lora-adapter|run_gate_eval.py|task_suite|_micro_plan|build_micro_suite|profile_id
promotion_gate.evaluate|GateVerdict|MANTIS_LORA_ADAPTER|_boot_lora_args|holo3_challenger/config.yaml
run_rollout_sweep.py|SeedSweepGenerator|(template, env_seed)|temperature > 0|state_key|sweep-<spec_id>|--max-parallel
StateKeyDispatcher|independent|session|_classify_group|GRPO-usable|episode_return|--variance-seek|SFT|DPO|GRPO
(chosen, rejected)|Fast:|Slow:|RolloutRunner|docs/SPEC.md
"""

ITERATIVE = """
delegation_loop_runner.py|dynamic_tool_factory.py|ROLLING_SUMMARY.md|update_rolling_summary()|Confidence Trend
config.history.full_results_window|PLAN|DIAGNOSE|DELEGATE|COMPLETE|_build_skill_catalog_section()|DynamicToolFactory
B1|B2|B3|B4|B5|B6|DT1|DT2|DT4|DT9|NC1|NC3|ast.parse()|5 s timeout|repairable|inline LLM repair loop|DelegationEnvelope
skills_created|30 words|workspace/skills/{name}.md|_persist_worker_result_skills()|_load_skill_catalog()|## Purpose
_resolve_skills()|# Skill: Name|StallDetector|min_confidence_delta|0.05|SequenceMatcher|2000|0.85|variance < 0.01|0.7
record()|`ok`|`warn`|switch_strategy|`stop`|StallDetectionConfig.strategy_switching|decompose_finer|simplify|reframe
escalate|_check_convergence()|0.95|key_findings|max(5, pending_subtask_count + 3)|partial_complete|max_loops|(100)
max_total_workers|(500)|max_total_tokens|10,000,000|max_wall_time|3600|max_tool_calls|1500|max_depth|(4)
can_continue()|BudgetSnapshot|budget_fraction_remaining|synthesis mode|allocate_child(fraction=0.3)
max_concurrent_submanagers|(3)|max_total_submanagers_per_run|(6)
"""

ORACLE = """
mantis_agent.sim_envs.oracle_client|fetch_mutations|since_id|timeout_s|error|last_mutation_id|gym.grading.grade_run
GET /__env__/mutations|operation|oracle_step_reward|expected_ops|value=0.1|SyntheticEnvReward|MarketplaceListingReward
oracle_mutations_delta|oracle_step_kind|expected_ops_by_step_kind|oracle_terminal|oracle_step_total
GradingResult.to_dict()|pass bonus|F1|lead_submitted|phone_revealed|consent_set|LearningRunner|StepVerifier
verify_filter|verify_on_correct_page|verify_step|tests/test_oracle_client.py|tests/test_oracle_step_reward.py
rewards.boattrader
"""

ROLLOUTS = """
clusters.json|PlanDecomposer.decompose_text()|MicroPlan|build_micro_suite()|open_orchestrator_session|fanout_runner.py
list_failure_clusters|Phase2Orchestrator|RolloutGenerator.generate()|TaskTemplate|template_id|cluster|plan_text
plan_steps|oracle_task_id|RolloutSpec|spec_id|env_seed|group_id|sibling_index|SeedSweepGenerator|siblings_per_instance
FailureBiasedGenerator|RolloutRunner|live_runner.py|preview headers|workflow_id|reward_from_run|P0|P1|P2|dataset slice
"""

NAMES = {
    "Continuous-improvement architecture (the flywheel)": FLYWHEEL,
    "Iterative Optimization": ITERATIVE,
    "rewards: oracle-driven per-step + terminal reward primitives": ORACLE,
    "Rollout Generator": ROLLOUTS,
}
"""The names of each seed document that the map must hold."""


@dataclass(frozen=True)
class Entry:
    """One row of the map, in the section of its document."""

    line: int
    document: str
    name: str
    here: str
    test: str
    state: str

    def __str__(self) -> str:
        return f"docs/seeds.md:{self.line} ({self.name})"


def entries() -> Iterator[Entry]:
    document, is_map = "", False
    for number, line in enumerate(PAGE.read_text().splitlines(), start=1):
        if line.startswith("## "):
            document = line.removeprefix("## ")
        cells = tuple(cell.strip() for cell in _CELL.split(line)[1:-1])
        if not cells:
            is_map = False
        elif cells == HEADER:
            is_map = True
        elif is_map and not set(line) <= set("|-"):
            assert len(cells) == len(HEADER), f"docs/seeds.md:{number} has {len(cells)} cells; expected {len(HEADER)}"
            yield Entry(number, document, *cells)


ENTRIES = tuple(entries())


def dead_links(entry: Entry) -> list[str]:
    targets = [found[1] for found in _LINK.finditer(entry.here + entry.test)]
    return [f"{entry}: {target} is missing" for target in targets if not (PAGE.parent / target).exists()]


def missing_symbols(entry: Entry) -> list[str]:
    found = []
    for link in _LINK.finditer(entry.here):
        file = PAGE.parent / link[1]
        text = file.read_text() if file.is_file() else ""
        found += [f"{entry}: `{name}` is not in {link[1]}" for name in _SYMBOL.findall(link[2]) if name not in text]
    return found


def unclear_states(entry: Entry) -> list[str]:
    if entry.state in TO_COME:
        return []
    if entry.state not in HERE:
        return [f"{entry}: the state {entry.state!r} is unknown"]
    missing = [what for what, cell in (("file", entry.here), ("test", entry.test)) if not _LINK.search(cell)]
    return [f"{entry}: it is said to be here and links no {what}" for what in missing]


def test_every_link_leads_to_a_file() -> None:
    assert [problem for entry in ENTRIES for problem in dead_links(entry)] == []


def test_every_symbol_is_in_the_file_before_it() -> None:
    assert [problem for entry in ENTRIES for problem in missing_symbols(entry)] == []


def test_every_row_is_here_with_a_test_or_to_come_with_a_part() -> None:
    assert [problem for entry in ENTRIES for problem in unclear_states(entry)] == []


def test_a_test_column_names_tests() -> None:
    links = [(entry, found[1]) for entry in ENTRIES for found in _LINK.finditer(entry.test)]
    assert [f"{entry}: {target}" for entry, target in links if not re.search(r"/tests/\w+/test_\w+\.py$", target)] == []


@pytest.mark.parametrize("document", NAMES)
def test_no_name_of_a_document_was_dropped(document: str) -> None:
    section = PAGE.read_text().partition(f"\n## {document}\n")[2].partition("\n## ")[0]
    headings = [line for line in section.splitlines() if line.startswith("### ")]
    mapped = "\n".join([*headings, *(entry.name for entry in ENTRIES if entry.document == document)])
    wanted = [name for line in NAMES[document].splitlines() for name in line.split("|") if name]
    assert [name for name in wanted if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", mapped)] == []


def test_faults_are_found() -> None:
    bad = Entry(1, "d", "n", "[`gone.py`](../gone.py) `x`", "[`t`](../tests/gone.py)", "done")
    assert dead_links(bad)
    assert missing_symbols(bad)
    assert unclear_states(bad)
    here_without_a_link = Entry(1, "d", "n", "somewhere", "—", "works")
    assert len(unclear_states(here_without_a_link)) == 2
    assert unclear_states(Entry(1, "d", "n", "—", "—", "to come: Nowhere"))
    assert unclear_states(Entry(1, "d", "n", "—", "—", "to come: Gate"))
    assert not unclear_states(Entry(1, "d", "n", "—", "—", "to come: Serving"))
