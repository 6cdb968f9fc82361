"""Datasets of what a policy drew: rows of tokens, advantages, pairs, and every reason to leave a run out."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agents.rewards import DEFAULT_PRICES, compute_reward
from api.datasets import freeze as datasets
from api.datasets.card import card_of
from api.datasets.freeze import DatasetDiffers, freeze_dataset, load, make_rows, refuse_empty, register
from api.datasets.row_batches import knowledge, read_group_facts
from api.errors import DatasetErased, EmptyDataset, Unknown
from api.queries.datasets import find_dataset, find_slice
from eventlog.events import (
    DpoQuery,
    Floor,
    GrpoQuery,
    Query,
    RunsWithdrawn,
    SftQuery,
    SubjectErased,
    Tokens,
    Usage,
    query_of,
)
from eventlog.store import Append
from projections.costs import PriceBook
from projections.datasets.advantages import NANO, advantages
from projections.datasets.curation import judged_by_log
from projections.datasets.packing import pack_row
from projections.datasets.refusals import REFUSALS
from projections.datasets.row_columns import SCHEMAS
from projections.datasets.sampled import CallFact, SampledCall, stretches
from projections.groups import find_groups
from tests.integration.test_rest_samples import frozen as benchmark
from tests.integration.test_rest_samples import template
from tests.unit.test_policy_samples import (
    MICRO,
    SECOND,
    TEMPLATE,
    TOKENIZER,
    PolicyCall,
    PolicyLog,
    PolicyRun,
    siblings,
)

GRPO = GrpoQuery(reward="score")
DPO = DpoQuery()
SFT = SftQuery(runs="policy")
DOCS = Path(__file__).parents[2] / "docs" / "datasets.md"


def refused(log: PolicyLog, query: Query = GRPO) -> dict[str, int]:
    return {item.reason: item.runs for item in log.build(query).refused}


def one(frame: pl.DataFrame, run: str) -> dict[str, Any]:
    (row,) = frame.filter(pl.col("run") == run).to_dicts()
    return row


# Advantages ----------------------------------------------------------------------------------------------------------

REWARDS = st.lists(st.integers(-4 * MICRO, 4 * MICRO), min_size=2, max_size=16)


@given(REWARDS, st.integers(0, 1), st.sampled_from(["0.0001", "0.000001", "1", "0.05"]))
def test_an_advantage_is_what_numpy_makes_of_the_rewards(rewards: list[int], ddof: int, eps: str) -> None:
    r = np.array(rewards, dtype=np.longdouble) / MICRO
    expected = (r - r.mean()) / (r.std(ddof=ddof) + float(eps))
    found = np.array(advantages(rewards, ddof, eps), dtype=np.longdouble) / NANO
    assert np.abs(found - expected).max() <= 1e-8


@given(REWARDS, st.permutations(range(16)), st.integers(-MICRO, MICRO))
def test_advantages_hang_on_no_order_and_on_nothing_that_all_earn_more(
    rewards: list[int], order: list[int], more: int
) -> None:
    found = advantages(rewards, 1, "0.0001")
    shuffled = [place for place in order if place < len(rewards)]
    assert advantages([rewards[place] + more for place in shuffled], 1, "0.0001") == tuple(
        found[place] for place in shuffled
    )
    assert abs(sum(found)) <= len(found)


def test_too_few_rewards_and_a_division_by_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        advantages([5], 1, "0.1")
    with pytest.raises(ValueError, match="eps above 0"):
        advantages([5, 5], 0, "0")
    assert advantages([5, 5], 0, "0.1") == (0, 0)


# Joining calls by their tokens ---------------------------------------------------------------------------------------


def a_call(prompt: list[int], ids: list[int]) -> SampledCall:
    fact = CallFact(0, "m", {"temperature_micro": MICRO, "top_p_micro": MICRO}, "", "")
    return SampledCall(fact, "", prompt, ids, [-1.0] * len(ids), TOKENIZER, TEMPLATE, is_exact=True)


IDS = st.lists(st.integers(0, 3), min_size=1, max_size=4)


@given(IDS, st.lists(st.tuples(IDS, st.lists(st.integers(0, 3), max_size=4), st.booleans()), min_size=1, max_size=6))
def test_calls_that_extend_one_another_are_one_row_and_no_token_is_lost(
    start: list[int], turns: list[tuple[list[int], list[int], bool]]
) -> None:
    calls, prompt, breaks = [], start, 0
    for ids, seen, breaks_off in turns:
        calls.append(a_call(prompt, ids))
        prompt = [9, *prompt] if breaks_off else [*prompt, *ids, *seen]
        breaks += breaks_off
    rows = stretches(calls)
    assert len(rows) == 1 + breaks - turns[-1][2]
    assert [call for row in rows for call in row.calls] == calls
    for row in rows:
        assert len(row.completion_ids) == len(row.mask) == len(row.logprobs)
        whole = [*row.prompt_ids, *row.completion_ids]
        last = row.calls[-1]
        assert whole == [*last.prompt_ids, *last.completion_ids]
        said = [token for token, mask in zip(row.completion_ids, row.mask, strict=True) if mask]
        assert said == [token for call in row.calls for token in call.completion_ids]
        assert [value for value, mask in zip(row.logprobs, row.mask, strict=True) if not mask] == [
            0.0
        ] * row.mask.count(0)


# GRPO ----------------------------------------------------------------------------------------------------------------


def test_a_run_of_two_calls_is_one_row_with_the_observation_masked() -> None:
    log = PolicyLog(*siblings(MICRO, 0, calls=(PolicyCall(), SECOND)))
    frame = log.build(GRPO).rows
    assert frame.schema == pl.Schema(SCHEMAS["grpo"])
    row = one(frame, "r0")
    assert row["prompt_ids"] == [1, 2, 3]
    assert row["completion_ids"] == [7, 8, 9, 4, 5, 6]
    assert row["mask"] == [1, 1, 1, 0, 0, 1]
    assert row["logprobs"] == [-0.5, -0.25, -0.125, 0.0, 0.0, -1.5]
    assert row["prompt"] == [{"role": "user", "content": "the task"}]
    assert [turn["content"] for turn in row["completion"]] == ["an answer", "a page", "done"]
    assert (row["call"], row["calls"], row["reward"], row["score"]) == (0, 2, MICRO, MICRO)
    assert (row["tokenizer"], row["chat_template"], row["temperature"], row["top_p"]) == (TOKENIZER, TEMPLATE, 1.0, 1.0)
    assert (row["max_tokens"], row["stop"], row["truncated"], row["artifact"]) == (9, [], False, "base@0")
    assert row["position"] == max(each.position for each in log.store.read(stream="run/r0", types=("RunFinished",)))
    assert np.allclose(frame["advantage"].to_list(), [0.5 / (math.sqrt(0.5) + 1e-4), -0.5 / (math.sqrt(0.5) + 1e-4)])


def test_calls_that_do_not_extend_one_another_are_rows_of_their_own_with_the_runs_advantage() -> None:
    apart = replace(SECOND, prompt=(1, 2, 3, 4))
    frame = PolicyLog(*siblings(MICRO, 0, calls=(PolicyCall(), apart))).build(GRPO).rows
    assert frame["call"].to_list() == [0, 1, 0, 1]
    assert frame["advantage"].n_unique() == 2
    assert frame["prompt_ids"].to_list()[1] == [1, 2, 3, 4]
    assert [len(turns) for turns in frame["prompt"].to_list()] == [1, 3, 1, 3]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (GrpoQuery(reward="score", ddof=0, eps="0.000001"), [1.0, -1.0]),
        (GrpoQuery(reward="score", ddof=1, eps="0.5"), [0.5 / (math.sqrt(0.5) + 0.5), -0.5 / (math.sqrt(0.5) + 0.5)]),
    ],
)
def test_the_query_says_how_an_advantage_is_made(query: GrpoQuery, expected: list[float]) -> None:
    found = PolicyLog(*siblings(MICRO, 0)).build(query).rows["advantage"].to_list()
    assert np.allclose(found, expected, atol=2e-6)


def test_the_reward_that_the_query_names_is_the_one_that_is_compared_and_judged() -> None:
    alike = [replace(run, score=0) for run in siblings(0, 400_000)]
    log = PolicyLog(*alike)
    assert refused(log) == {"flat": 2}
    frame = log.build(GrpoQuery(reward="value")).rows
    assert frame["reward"].to_list() == [0, 400_000]
    assert frame["score"].to_list() == [0, 0]


def twice(call: PolicyCall) -> PolicyCall:
    """The call, answered twice."""
    plain = json.loads(call.blob().body)
    return PolicyCall(body=json.dumps({**plain, "samples": plain["samples"] * 2}).encode())


PLANTED: list[tuple[str, dict[str, Any]]] = [
    ("unreadable", {"calls": (PolicyCall(body=b"no json"),)}),
    ("unreadable", {"calls": (PolicyCall(body=b'{"samples": []}'),)}),
    ("several_samples", {"calls": (twice(PolicyCall()),)}),
    ("several_samples", {"calls": (PolicyCall(), twice(replace(SECOND, ids=None, prompt=None)))}),
    ("no_token_ids", {"calls": (PolicyCall(ids=None),)}),
    ("no_token_ids", {"calls": (PolicyCall(prompt=None),)}),
    ("no_token_ids", {"calls": (PolicyCall(), replace(SECOND, ids=None))}),
    ("unreadable", {"calls": (PolicyCall(text="\ud800"),)}),
    ("bad_token_ids", {"calls": (PolicyCall(ids=(7, 8, 2**63)),)}),
    ("bad_token_ids", {"calls": (PolicyCall(ids=(7, 8, 2**31)),)}),
    ("bad_token_ids", {"calls": (PolicyCall(), replace(SECOND, prompt=(*(SECOND.prompt or ()), -1)))}),
    ("no_tokenizer", {"calls": (PolicyCall(tokenizer=None),)}),
    ("no_tokenizer", {"calls": (PolicyCall(template=None),)}),
    ("no_logprobs", {"calls": (PolicyCall(logprobs=None),)}),
    ("no_logprobs", {"calls": (PolicyCall(logprobs=(-1.0, None, -1.0)),)}),
    ("lengths_differ", {"calls": (PolicyCall(logprobs=(-1.0, -1.0)),)}),
    ("not_finite", {"calls": (PolicyCall(body=b""),)}),
    ("raw_logprobs", {"calls": (PolicyCall(top_p=900_000),)}),
    ("raw_logprobs", {"calls": (PolicyCall(temperature=700_000),)}),
    ("constrained", {"calls": (PolicyCall(facts=(("constrained", True),)),)}),
    ("constrained", {"calls": (PolicyCall(facts=(("constrained", True), ("processed_logprobs", True))),)}),
    ("changed_distribution", {"calls": (PolicyCall(facts=(("distribution", "changed"),)),)}),
    ("unknown_distribution", {"calls": (PolicyCall(facts=(("distribution", "unknown"),)),)}),
    ("greedy", {"calls": (PolicyCall(temperature=0, facts=(("processed_logprobs", True),)),)}),
    ("mixed_policies", {"calls": (PolicyCall(), replace(SECOND, model="m2"))}),
    ("no_model_calls", {"role": "verifier"}),
    ("treated", {"candidate": "rw"}),
    ("treated", {"withheld": "rw"}),
    ("contaminated", {"fingerprint": "f" * 64}),
    ("missing", {"is_missing": True}),
    ("not_ended", {"is_ended": False}),
    ("ungraded", {"score": None}),
]


def infinite() -> PolicyCall:
    plain = json.loads(PolicyCall().blob().body)
    plain["samples"][0]["logprobs"] = ["@", -1.0, -1.0]
    return PolicyCall(body=json.dumps(plain).replace('"@"', "-1e999").encode())


@pytest.mark.parametrize(("reason", "changes"), PLANTED, ids=[f"{n}-{each[0]}" for n, each in enumerate(PLANTED)])
def test_every_reason_to_refuse_a_run_is_found_and_its_siblings_are_taken(reason: str, changes: dict[str, Any]) -> None:
    if reason == "not_finite":
        changes = {"calls": (infinite(),)}
    odd = replace(PolicyRun("odd", MICRO, index=9), **changes)
    log = PolicyLog(*siblings(MICRO, 0, 0), odd)
    built = log.build(GRPO)
    assert built.rows["run"].to_list() == ["r0", "r1", "r2"]
    assert refused(log) == {reason: 1}


def test_processed_logprobs_of_a_tempered_policy_are_taken() -> None:
    tempered = PolicyCall(temperature=700_000, top_p=900_000, facts=(("processed_logprobs", True),))
    log = PolicyLog(*siblings(MICRO, 0, calls=(tempered,)))
    frame = log.build(GRPO).rows
    assert (frame.height, frame["temperature"].to_list(), frame["top_p"].to_list()) == (2, [0.7, 0.7], [0.9, 0.9])


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        (siblings(0, 0, 0), "flat"),
        (siblings(MICRO, MICRO), "flat"),
        (siblings(MICRO), "alone"),
        ((*siblings(MICRO, 0), replace(PolicyRun("z", 0, index=5), weights="c" * 64)), "mixed_policies"),
        ((*siblings(MICRO, 0), PolicyRun("z", 0, index=5, calls=(PolicyCall(model="m2"),))), "mixed_policies"),
        ((*siblings(MICRO, 0), PolicyRun("z", 0, index=5, calls=(PolicyCall(tokenizer="c" * 64),))), "mixed_policies"),
        ((*siblings(MICRO, 0), PolicyRun("z", 0, index=5, calls=(PolicyCall(prompt=(1, 2, 4)),))), "mixed_policies"),
    ],
)
def test_a_group_that_teaches_nothing_or_mixes_policies_is_refused_whole(
    runs: tuple[PolicyRun, ...], reason: str
) -> None:
    built = PolicyLog(*runs).build(GRPO)
    assert (built.height, built.groups) == (0, 0)
    assert refused(PolicyLog(*runs)) == {reason: len(runs)}


def test_only_what_the_demonstrator_played_is_read_as_a_demonstration() -> None:
    words = PolicyCall(prompt=None, ids=None, logprobs=None)
    said, shown = (PolicyRun(name, calls=(words,), executor=name) for name in ("policy", "demonstration"))
    log = PolicyLog(said, replace(shown, index=1))
    known, (group,) = knowledge(log.store, log.views()), find_groups(log.views()).values()
    facts = read_group_facts(log.store, log.views(), [group])
    query = SftQuery(runs="demonstration", tokens=Tokens(tokenizer=TOKENIZER, chat_template=TEMPLATE))
    taken, reasons = judged_by_log(query, group, facts, known)
    assert ([each.run for each in taken], reasons) == (["demonstration"], {"policy": "sampled"})


def test_a_group_that_is_flat_once_broken_runs_are_left_out_is_refused_as_flat() -> None:
    log = PolicyLog(*siblings(0, 0), PolicyRun("z", MICRO, index=5, calls=(PolicyCall(ids=None),)))
    assert refused(log) == {"flat": 2, "no_token_ids": 1}


def test_a_reward_that_is_unknown_is_refused_and_never_zero() -> None:
    log = PolicyLog(*siblings(MICRO, 0, 0), replace(PolicyRun("odd", MICRO, index=9), value=None, shaped=None))
    for query in (GrpoQuery(reward="value"), GrpoQuery(reward="shaped")):
        assert refused(log, query) == {"reward_unknown": 1}
        assert log.build(query).rows["run"].to_list() == ["r0", "r1", "r2"]


def test_shaped_returns_of_two_formulas_are_not_compared() -> None:
    log = PolicyLog(*siblings(MICRO, 0), replace(PolicyRun("odd", MICRO, index=9), shaping="shaped-2"))
    assert refused(log, GrpoQuery(reward="shaped")) == {"mixed_shaping": 3}


def test_benchmark_instances_and_arms_never_enter() -> None:
    log = PolicyLog()
    log.store.append([Append("benchmark/b", (benchmark(template("frozen", "o"), 7),), "test")])
    log.play(
        *siblings(MICRO, 0), *(replace(run, run=f"b{run.run}", group="h", env_seed=7) for run in siblings(MICRO, 0))
    )
    log.play(*(replace(run, run=f"a{run.run}", group="i", evaluation="e") for run in siblings(MICRO, 0)))
    assert refused(log) == {"benchmark": 4}
    assert log.build(GRPO).rows["group"].unique().to_list() == ["g"]


def test_withdrawn_runs_are_counted_and_left_out_and_an_earlier_position_still_has_them() -> None:
    log = PolicyLog(*siblings(MICRO, 0, 0))
    before = log.build(GRPO)
    digest = freeze_dataset(log.store, before, "test")
    log.store.append([Append("withdrawals", (RunsWithdrawn(runs=("r2",), reason="test"),), "test")])
    assert log.build(GRPO).rows["run"].to_list() == ["r0", "r1"]
    assert refused(log) == {"withdrawn": 1}
    assert load(log.store, log.blobs, log.views, digest).rows.equals(before.rows)


def test_an_erased_run_is_left_out_and_a_dataset_that_holds_it_says_erased() -> None:
    log = PolicyLog(*siblings(MICRO, 0, 0), PolicyRun("own", MICRO, index=9, subject="ada"))
    digest = freeze_dataset(log.store, log.build(GRPO), "test")
    assert load(log.store, log.blobs, log.views, digest).height == 4
    log.blobs.erase("ada")
    log.store.append([Append("erasures", (SubjectErased(subject="ada", reason="asked"),), "test")])
    assert log.build(GRPO).rows["run"].to_list() == ["r0", "r1", "r2"]
    assert refused(log) == {"erased": 1}
    with pytest.raises(DatasetErased):
        load(log.store, log.blobs, log.views, digest)


def test_what_a_dataset_was_made_of_is_found_from_a_run() -> None:
    log = PolicyLog(*siblings(MICRO, 0, 0), PolicyRun("lost", MICRO, index=9, is_missing=True))
    digest = freeze_dataset(log.store, log.build(GRPO), "test")
    frozen = find_dataset(log.views(), digest)
    holds = datasets.holding_over(log.store, log.views)
    assert [holds(frozen, {run}) for run in ("r0", "r2", "lost", "nobody")] == [True, True, False, False]
    log.play(*(replace(run, run=f"x{run.run}", group="h", sweep="s2") for run in siblings(MICRO, 0)))
    ours = find_dataset(
        log.views(), freeze_dataset(log.store, log.build(GRPO.model_copy(update={"sweep": "s"})), "test")
    )
    assert [holds(ours, {run}) for run in ("r0", "xr0")] == [True, False]


def test_groups_are_taken_by_environment_sweep_and_name() -> None:
    log = PolicyLog(*siblings(MICRO, 0))
    log.play(
        *(replace(each, run=f"x{each.run}", group="h", sweep="s2", environment="e2") for each in siblings(MICRO, 0))
    )
    for asked in ({"group": "h"}, {"sweep": "s2"}, {"environment": "e2"}):
        built = log.build(GRPO.model_copy(update=asked))
        assert (built.rows["group"].unique().to_list(), built.groups) == (["h"], 1)
    assert log.build(GRPO).groups == 2


def test_several_sweeps_are_taken_together_in_whatever_order_they_are_named() -> None:
    log = PolicyLog(*siblings(MICRO, 0))
    for number in (2, 3):
        log.play(
            *(
                replace(each, run=f"{number}{each.run}", group=f"g{number}", sweep=f"s{number}")
                for each in siblings(MICRO, 0)
            )
        )
    one_way, other_way = (GrpoQuery(reward="score", sweep=sweeps) for sweeps in (("s3", "s2", "s3"), ("s2", "s3")))
    assert one_way == other_way == query_of(one_way.model_dump(mode="json"))
    assert log.build(one_way).rows["group"].unique(maintain_order=True).to_list() == ["g2", "g3"]
    assert GrpoQuery(sweep=("s2",)) == GrpoQuery(sweep="s2")
    with pytest.raises(ValidationError):
        GrpoQuery(sweep=())


# SFT and DPO ---------------------------------------------------------------------------------------------------------


def test_sft_takes_runs_at_or_above_a_reward_with_their_tokens() -> None:
    log = PolicyLog(*siblings(MICRO, 0, 500_000))
    built = log.build(SFT)
    assert built.rows.schema == pl.Schema(SCHEMAS["sft"])
    assert built.rows["run"].to_list() == ["r0"]
    assert refused(log, SFT) == {"below_score": 2}
    query = SftQuery(runs="policy", min_score=0, floor=Floor(reward="value", least=500_000))
    assert log.build(query).rows["run"].to_list() == ["r0", "r2"]
    assert refused(log, query) == {"below_floor": 1}
    best = SftQuery(runs="policy", min_score=0, best_of_group=True)
    assert (log.build(best).rows["run"].to_list(), refused(log, best)) == (["r0"], {"not_best_of_group": 2})
    (row,) = built.rows.to_dicts()
    assert [turn["content"] for turn in row["messages"]] == ["the task", "an answer"]


def test_sft_needs_no_logprobs_and_asks_not_how_it_was_drawn() -> None:
    bare = PolicyCall(logprobs=None, temperature=0, top_p=1)
    assert PolicyLog(*siblings(MICRO, MICRO, calls=(bare,))).build(SFT).height == 2


CUT = PolicyCall(finish="length")


@pytest.mark.parametrize(
    "calls",
    [(CUT,), (CUT, SECOND), (PolicyCall(), replace(SECOND, finish="length"))],
    ids=["alone", "first", "last"],
)
def test_who_would_imitate_an_answer_that_was_cut_is_refused_though_the_run_passed(
    calls: tuple[PolicyCall, ...],
) -> None:
    log = PolicyLog(*siblings(MICRO, 0), PolicyRun("odd", MICRO, index=9, calls=calls))
    assert log.build(SFT).rows["run"].to_list() == ["r0"]
    assert refused(log, SFT) == {"below_score": 1, "cut_off": 1}
    frame = log.build(GRPO).rows
    assert dict(zip(frame["run"], frame["truncated"], strict=True)) == {"r0": False, "r1": False, "odd": True}


def test_of_a_group_the_best_run_is_taken_that_nothing_speaks_against() -> None:
    cut = PolicyRun("cut", MICRO, index=0, calls=(CUT,))
    log = PolicyLog(cut, PolicyRun("whole", MICRO, index=1), PolicyRun("worse", 0, index=2))
    best = SftQuery(runs="policy", min_score=0, best_of_group=True)
    assert log.build(best).rows["run"].to_list() == ["whole"]
    assert refused(log, best) == {"cut_off": 1, "not_best_of_group": 1}


def test_a_pair_says_of_each_answer_whether_it_was_cut_and_what_played_it() -> None:
    won = PolicyRun("won", MICRO, calls=(replace(CUT, max_tokens=3, stop=("b", "a")),), memory=212)
    lost = PolicyRun("lost", 0, index=1, calls=(PolicyCall(ids=(7,), max_tokens=64, stop=("c", "a")),), memory=7)
    log = PolicyLog(replace(won, weights="3f9a1c22" + "0" * 56), lost)
    (row,) = log.build(DPO).rows.to_dicts()
    assert (row["chosen_truncated"], row["rejected_truncated"]) == (True, False)
    assert (row["chosen_artifact"], row["rejected_artifact"]) == ("ck-3f9a1c22@212", "base@7")
    assert (row["max_tokens"], row["stop"]) == (64, ["a", "b", "c"])
    digest = freeze_dataset(log.store, log.build(DPO), "test")
    card = card_of(log.store, log.blobs, log.views, find_dataset(log.views(), digest))
    assert "truncated at its maximum length | 1 |" in card


def test_calls_that_may_end_elsewhere_are_one_row_of_one_policy() -> None:
    calls = (PolicyCall(max_tokens=512), replace(SECOND, max_tokens=64, stop=("</answer>",)))
    log = PolicyLog(*siblings(MICRO, 0, calls=calls, memory=212))
    for query in (GRPO, SFT):
        row = log.build(query).rows.to_dicts()[0]
        assert (row["calls"], row["max_tokens"], row["stop"]) == (2, 512, ["</answer>"])
        assert (row["artifact"], row["weights"]) == ("base@212", "base")


def test_an_answer_that_nobody_said_the_end_of_is_no_answer_that_was_cut() -> None:
    log = PolicyLog(*siblings(MICRO, MICRO, calls=(PolicyCall(finish=None),)))
    assert log.build(SFT).rows["truncated"].to_list() == [False, False]


def test_pairs_are_the_widest_first_and_at_most_so_many() -> None:
    log = PolicyLog(*siblings(MICRO, 500_000, 0))
    frame = log.build(DpoQuery(max_pairs=2)).rows
    assert frame.schema == pl.Schema(SCHEMAS["dpo"])
    assert list(zip(frame["chosen_run"], frame["rejected_run"], strict=True)) == [("r0", "r2"), ("r0", "r1")]
    row = frame.to_dicts()[0]
    assert (row["chosen_ids"], row["rejected_ids"], row["prompt_ids"]) == ([7, 8, 10], [7, 8, 12], [1, 2, 3])
    assert (row["chosen_reward"], row["rejected_reward"]) == (MICRO, 0)
    assert (row["chosen"][0]["content"], row["prompt"][0]["content"]) == ("an answer", "the task")
    assert log.build(DpoQuery(max_pairs=9)).height == 3
    wide = log.build(DpoQuery(margin=MICRO))
    assert wide.height == 1
    assert {item.reason: item.runs for item in wide.refused} == {"no_pair": 1}


@pytest.mark.parametrize(
    ("calls", "reason"),
    [
        ((PolicyCall(prompt=(9, 9)),), {"no_pair": 2}),
        ((replace(PolicyCall(), ids=(7, 8, 10)),), {"no_pair": 2}),
        ((PolicyCall(tokenizer="c" * 64),), {"no_pair": 2}),
        ((PolicyCall(), replace(SECOND, prompt=(5,))), {"no_pair": 1, "split": 1}),
    ],
    ids=["another prompt", "the same answer", "another tokenizer", "no one answer"],
)
def test_what_is_no_other_answer_to_the_same_prompt_makes_no_pair(
    calls: tuple[PolicyCall, ...], reason: dict[str, int]
) -> None:
    log = PolicyLog(*siblings(MICRO), replace(PolicyRun("z", 0, index=5), calls=calls))
    assert refused(log, DPO) == reason


# The whole -----------------------------------------------------------------------------------------------------------


def many() -> PolicyLog:
    log = PolicyLog()
    for number in range(7):
        log.play(*(replace(run, run=f"{number}{run.run}", group=f"g{number}") for run in siblings(MICRO, 0, 250_000)))
    return log


@pytest.mark.parametrize("query", [GRPO, DPO, SFT], ids=["grpo", "dpo", "sft"])
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_no_split_into_batches_changes_rows_or_digest(query: Query, size: int) -> None:
    log = many()
    frames: list[pl.DataFrame] = []
    made = make_rows(log.store, log.blobs, log.views(), query, frames.append, groups_at_once=size)
    whole = log.build(query)
    assert (made.digest, made.height, made.groups, made.refused) == (
        whole.digest,
        whole.height,
        whole.groups,
        whole.refused,
    )
    assert pl.concat(frames).equals(whole.rows)


def test_the_digest_of_a_tiny_dataset_stays_what_it_is() -> None:
    log = PolicyLog(*siblings(MICRO, 0, 250_000, calls=(PolicyCall(), SECOND)))
    assert log.build(GRPO).digest == "b87064e832021737c10066b654a0406575dab432741685c339d1700afe2451cc"
    assert log.build(SFT).digest == "fc573308bb22bdadc199b4388332324b31d68599a2071feff6c0c4637a04a681"
    assert (
        PolicyLog(*siblings(MICRO, 0)).build(DPO).digest
        == "4142747242f865eb0970b5ee3baa020cc1bfecfd0582e6ad6f97df5781306f3e"
    )


def test_rows_hold_what_a_run_earned_so_its_seconds_move_the_digest_unless_the_score_is_asked_for() -> None:
    """Two histories that differ in a microsecond may give two datasets. One log gives one, whenever it is read."""
    book = PriceBook(**DEFAULT_PRICES.model_dump(exclude={"type"}))

    def worth(wall: int) -> int | None:
        usage = Usage(actions=0, wall_microseconds=wall, input_tokens=0, output_tokens=0)
        return compute_reward("r", "g", MICRO, (), usage, book, passed=True, conduct=None).value

    quick, slow = worth(333_333), worth(333_334)
    by_score = SftQuery(runs="policy", floor=Floor(reward="score", least=0))
    assert (quick, slow) == (MICRO, MICRO - 1)
    first, second = (PolicyLog(PolicyRun("r", value=value)) for value in (quick, slow))
    assert first.build(SFT).digest != second.build(SFT).digest
    assert first.build(SFT).rows.drop("reward").equals(second.build(SFT).rows.drop("reward"))
    assert first.build(by_score).digest == second.build(by_score).digest


@given(
    st.lists(st.integers(0, 2**31), min_size=1),
    st.lists(st.floats(-100, 0), min_size=1),
    st.text(),
    st.none() | st.integers(-(2**53), 2**53),
)
def test_equal_bytes_are_equal_rows(ids: list[int], logprobs: list[float], text: str, number: int | None) -> None:
    row: dict[str, Any] = {"ids": ids, "logprobs": logprobs, "text": text, "number": number, "texts": [text, "x"]}
    assert pack_row(row) == pack_row(dict(reversed(row.items())))
    for name, other in (
        ("ids", [*ids, 0]),
        ("logprobs", [*logprobs, -1.0]),
        ("text", text + "x"),
        ("number", "0"),
        ("texts", [text + "x"]),
    ):
        assert pack_row({**row, name: other}) != pack_row(row)
    assert (number == 0) == (pack_row({**row, "number": 0}) == pack_row(row))


def test_a_parquet_file_is_written_as_the_rows_come_and_read_by_polars(tmp_path: Path) -> None:
    log = many()
    made = datasets.write_dataset(log.store, log.blobs, log.views(), GRPO, tmp_path / "rows.parquet")
    whole = log.build(GRPO)
    assert made.digest == whole.digest
    assert pl.read_parquet(tmp_path / "rows.parquet").equals(whole.rows)


def test_a_parquet_file_loads_with_datasets(tmp_path: Path) -> None:
    library = pytest.importorskip("datasets", reason="the library datasets is not installed")
    log = many()
    for query in (GRPO, DPO, SFT):
        file = tmp_path / f"{query.kind}.parquet"
        made = datasets.write_dataset(log.store, log.blobs, log.views(), query, file)
        found = library.load_dataset("parquet", data_files=str(file), split="train", cache_dir=str(tmp_path / "cache"))
        assert (len(found), set(found.column_names)) == (made.height, set(SCHEMAS[query.kind]))
        assert found[0]["prompt_ids"] == [1, 2, 3]


def test_an_empty_dataset_says_what_was_refused_and_registers_nothing() -> None:
    log = PolicyLog(*siblings(0, 0))
    with pytest.raises(EmptyDataset, match="2 flat"):
        refuse_empty(log.build(GRPO))
    with pytest.raises(EmptyDataset, match="no run matched"):
        refuse_empty(PolicyLog().build(GRPO))


def test_a_slice_is_registered_once_and_made_again_by_the_name_of_its_group() -> None:
    log = many()
    query = GRPO.model_copy(update={"group": "g3"})
    made = log.build(query)
    assert register(log.store, made, "test") == register(log.store, made, "again") == "g3"
    assert len(list(log.store.read(types=("SliceRegistered",)))) == 1
    found = find_slice(log.views(), "g3")
    assert (found.dataset, found.rows, found.parse_query()) == (made.digest, 3, query)
    log.play(PolicyRun("late", 0, group="g3", index=9))
    again = datasets.again(
        found, lambda: datasets.build_dataset(log.store, log.blobs, log.views(made.upto), found.parse_query())
    )
    assert again.rows.equals(made.rows)
    with pytest.raises(DatasetDiffers):
        datasets.again(found, lambda: log.build(query))
    with pytest.raises(Unknown, match="slice"):
        find_slice(log.views(), "g4")
    with pytest.raises(Unknown, match="group"):
        datasets.refuse_unknown_group(log.views(), "nobody")


def test_a_card_says_what_the_rows_are_of_and_what_was_refused() -> None:
    log = PolicyLog(*siblings(MICRO, 0), *(replace(run, run=f"f{run.run}", group="f") for run in siblings(0, 0)))
    digest = freeze_dataset(log.store, log.build(GRPO), "test")
    card = card_of(log.store, log.blobs, log.views, find_dataset(log.views(), digest))
    assert digest in card
    assert "2 rows for grpo, of 2 runs in 1 groups." in card
    assert "truncated at its maximum length | 0 |" in card
    assert f"| `flat` | 2 | {REFUSALS['flat']} |" in card
    assert "| `logprobs` |" in card
    assert "| base | m1 | 1.0 | 2 |" in card


def test_every_reason_is_explained_in_words_and_in_the_page() -> None:
    page = DOCS.read_text()
    assert [reason for reason in REFUSALS if f"`{reason}`" not in page] == []
    assert {reason for reason, _ in PLANTED} <= REFUSALS.keys()
