from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import polars as pl
import pytest

from api.datasets.freeze import BuiltDataset, DatasetDiffers, build_dataset, freeze_dataset, load
from api.errors import Unknown
from api.queries.datasets import find_dataset
from eventlog.blobs import MemoryBlobs
from eventlog.errors import BlobMissing
from eventlog.events import DatasetFrozen, Refused, SftQuery, Step
from eventlog.memory import MemoryStore
from eventlog.store import Position
from projections.datasets.plan_rows import (
    SCHEMA,
    BrokenRun,
    ConversationMessage,
    SftRow,
    answer_of_step,
    collapse_whitespace,
    judge_sft,
    oracle_tasks,
    prompt_for_step,
    sft_rows,
    step_digest,
    to_frame,
)
from projections.engine.views import ReplayedViews
from projections.groups import GroupState, Sibling
from projections.rewards import RewardState
from projections.runs import RunState
from tests.integration.test_rest_samples import ENVIRONMENT, SampleRun, append, frozen, planned, record, template

QUERY = SftQuery()


class Log:
    """A log in memory."""

    def __init__(self) -> None:
        self.store = MemoryStore(lambda: datetime(2026, 1, 1, tzinfo=UTC))
        self.blobs = MemoryBlobs()

    def views(self, position: Position | None = None) -> ReplayedViews:
        return ReplayedViews(self.store, self.store.head() if position is None else position)

    def build(self, query: SftQuery = QUERY) -> BuiltDataset:
        return build_dataset(self.store, self.blobs, self.views(), query)


@pytest.fixture
def log() -> Log:
    log = Log()
    append(log.store, "sweep/s1", planned(template()))
    return log


def run_state(run: str, **fields: object) -> RunState:
    plain = {"group": "g", "template": "t", "environment": ENVIRONMENT, "env_seed": 7, "status": "completed"}
    return RunState(run=run, **{**plain, **fields})  # type: ignore[arg-type]


def selected(
    *runs: RunState,
    query: SftQuery = QUERY,
    scores: dict[str, int] | None = None,
    instances: frozenset[tuple[str, str, int]] = frozenset(),
    oracles: dict[str, frozenset[str]] | None = None,
    groups: dict[str, GroupState] | None = None,
    left_out: dict[str, str] | None = None,
) -> tuple[tuple[str, ...], dict[str, int]]:
    rewards = {run: RewardState(run=run, score=score, value=score) for run, score in (scores or {}).items()}
    played = {run.run: run for run in runs}
    reasons = judge_sft(query, played, rewards, instances, oracles or {}, groups or {}, left_out or {})
    taken = tuple(sorted(run for run, reason in reasons.items() if reason is None))
    return taken, Counter(reason for reason in reasons.values() if reason is not None)


def test_every_reason_to_refuse_a_run_is_counted() -> None:
    contaminated = GroupState(
        siblings=(Sibling(run="mixed", index=0, fingerprint="a"), Sibling(run="y", index=1, fingerprint="b"))
    )
    runs, refused = selected(
        run_state("good"),
        run_state("arm", evaluation="e"),
        run_state("going", status="started"),
        run_state("lost", status="missing"),
        run_state("ungraded"),
        run_state("poor"),
        run_state("mixed", group="m"),
        run_state("elsewhere", environment="other"),
        run_state("taken-out"),
        run_state("forgotten"),
        run_state("model", executor="policy"),
        query=SftQuery(environment=ENVIRONMENT),
        scores={
            "good": 1_000_000,
            "arm": 1_000_000,
            "poor": 999_999,
            "mixed": 1_000_000,
            "elsewhere": 1_000_000,
            "model": 1_000_000,
        },
        oracles={"t": frozenset({"o"})},
        groups={"m": contaminated},
        left_out={"taken-out": "withdrawn", "forgotten": "erased", "elsewhere": "withdrawn", "arm": "withdrawn"},
    )
    assert runs == ("good",)
    assert refused == {
        "benchmark": 1,
        "not_ended": 1,
        "missing": 1,
        "ungraded": 1,
        "below_score": 1,
        "contaminated": 1,
        "no_plan": 1,
        "withdrawn": 1,
        "erased": 1,
    }


def test_of_three_siblings_the_one_that_began_elsewhere_is_refused_and_the_others_are_taken() -> None:
    siblings = tuple(
        Sibling(run=run, index=0, fingerprint=start) for run, start in (("x", "a"), ("y", "a"), ("z", "b"))
    )
    scores = dict.fromkeys("xyz", 1_000_000)
    found = selected(*(run_state(run) for run in "xyz"), scores=scores, groups={"g": GroupState(siblings=siblings)})
    assert found == (("x", "y"), {"contaminated": 1})


def test_the_best_run_of_a_group_is_the_best_of_those_that_count() -> None:
    runs, refused = selected(
        run_state("a"),
        run_state("b"),
        run_state("c"),
        query=SftQuery(min_score=0, best_of_group=True),
        scores={"a": 900_000, "b": 800_000, "c": 700_000},
        left_out={"a": "withdrawn"},
    )
    assert (runs, refused) == (("b",), {"not_best_of_group": 1, "withdrawn": 1})


@pytest.mark.parametrize(
    ("oracles", "taken"),
    [
        ({"t": frozenset({"sealed-task"})}, ()),
        ({"t": frozenset({"o", "sealed-task"})}, ()),
        ({"t": frozenset({"o"})}, ("r",)),
        ({}, ()),
    ],
    ids=["same task under another template", "a template of two tasks", "another task", "a template never planned"],
)
def test_a_run_of_a_benchmark_instance_is_refused_whatever_its_template_is_called(
    oracles: dict[str, frozenset[str]], taken: tuple[str, ...]
) -> None:
    instances = frozenset({(ENVIRONMENT, "sealed-task", 7)})
    runs, _ = selected(run_state("r"), scores={"r": 1_000_000}, instances=instances, oracles=oracles)
    assert runs == taken


def test_the_same_task_at_another_seed_is_no_benchmark_instance() -> None:
    instances = frozenset({(ENVIRONMENT, "sealed-task", 8)})
    runs, _ = selected(run_state("r"), scores={"r": 1_000_000}, instances=instances)
    assert runs == ("r",)


def test_the_best_run_of_each_group_is_the_highest_score_then_value_then_the_first_id() -> None:
    query = SftQuery(min_score=0, best_of_group=True)
    runs, refused = selected(
        run_state("b"),
        run_state("a"),
        run_state("c"),
        run_state("alone", group="h"),
        query=query,
        scores={"b": 5, "a": 5, "c": 4, "alone": 0},
    )
    assert runs == ("a", "alone")
    assert refused == {"not_best_of_group": 2}


def test_runs_come_in_order_of_their_bytes() -> None:
    names = ("é", "Z", "a", "\U0001f600", "\uffee")
    runs, _ = selected(*(run_state(name) for name in names), scores=dict.fromkeys(names, 1_000_000))
    assert runs == ("Z", "a", "é", "\uffee", "\U0001f600")


def test_a_step_is_answered_as_canonical_json_without_nulls() -> None:
    step = Step(type="fill_field", intent="say a name", label="Naïve", value="")
    assert answer_of_step(step) == ConversationMessage("assistant", '{"label":"Naïve","type":"fill_field","value":""}')


def test_a_page_is_compacted_and_carries_no_nul() -> None:
    assert collapse_whitespace(" a \t b\r\n\n\n c\0d ") == "a b\nc d"


def test_the_first_prompt_knows_no_page_and_no_steps() -> None:
    system, user = prompt_for_step("Do it.", None, ())
    assert system.role == "system"
    assert user == ConversationMessage("user", "Task: Do it.\n\nSteps taken:\n(none)\n\nPage:\n(none)")


def test_a_row_for_each_step_shows_what_the_agent_saw_before_it(log: Log) -> None:
    record(log.store, log.blobs, SampleRun("r1"))
    frame = log.build().rows
    assert frame["step"].to_list() == [0, 1, 2]
    users = [row[1]["content"] for row in frame["prompt"].to_list()]
    assert users[0].endswith("Steps taken:\n(none)\n\nPage:\n(none)")
    assert users[1].endswith('1. {"type":"navigate","url":"/boats"} -> ok\n\nPage:\nBoats\nfor sale')
    assert users[2].endswith("Page:\nBoats\nfor sale")
    assert [json.loads(row[0]["content"])["type"] for row in frame["completion"].to_list()] == [
        "navigate",
        "fill_field",
        "submit",
    ]
    assert frame["position"].unique().to_list() == [7]
    assert frame["reward"].unique().to_list() == [990_000]


def test_an_unknown_reward_stays_unknown(log: Log) -> None:
    record(log.store, log.blobs, SampleRun("r1", value=None))
    assert log.build().rows["reward"].null_count() == 3


def test_a_frame_has_the_same_columns_with_and_without_rows(log: Log) -> None:
    empty = log.build()
    record(log.store, log.blobs, SampleRun("r1"))
    full = log.build()
    assert empty.rows.schema == full.rows.schema == pl.Schema(SCHEMA)
    assert (empty.rows.height, empty.groups) == (0, 0)


def test_a_row_has_the_digest_of_its_content() -> None:
    row = SftRow(
        (ConversationMessage("user", "a"),), (ConversationMessage("assistant", "b"),), "r", "g", "t", 1, 0, None, 5, 9
    )
    other = replace(row, step=1)
    assert len({step_digest(row), step_digest(other), step_digest(replace(row, reward=0))}) == 3
    assert step_digest(row) == step_digest(replace(row))
    assert to_frame([row]).height == 1


def test_a_benchmark_run_and_a_run_of_its_instance_never_enter(log: Log) -> None:
    append(log.store, "benchmark/b", frozen(template("frozen", "contact-seller"), 7))
    record(
        log.store,
        log.blobs,
        SampleRun("arm", evaluation="e", env_seed=1),
        SampleRun("twin", env_seed=7),
        SampleRun("free", env_seed=8),
    )
    built = log.build()
    assert built.rows["run"].unique().to_list() == ["free"]
    assert built.refused == (Refused(reason="benchmark", runs=2),)


def test_a_dataset_is_loaded_again_from_its_position_while_the_log_goes_on(log: Log) -> None:
    record(log.store, log.blobs, SampleRun("r1"))
    built = log.build()
    digest = freeze_dataset(log.store, built, "test")
    record(log.store, log.blobs, SampleRun("r2", group="g2"))
    again = load(log.store, log.blobs, log.views, digest)
    assert (again.digest, again.upto, again.groups) == (digest, built.upto, 1)
    assert again.rows.equals(built.rows)
    assert log.build().digest != digest
    assert find_dataset(log.views(), digest).rows == 3


def test_freezing_twice_is_one_fact(log: Log) -> None:
    record(log.store, log.blobs, SampleRun("r1"))
    built = log.build()
    assert freeze_dataset(log.store, built, "test") == freeze_dataset(log.store, built, "someone else")
    assert len(list(log.store.read(types=("DatasetFrozen",)))) == 1


def test_a_dataset_that_was_never_frozen_is_unknown(log: Log) -> None:
    with pytest.raises(Unknown, match="No dataset is called"):
        load(log.store, log.blobs, log.views, "a" * 64)


def test_a_dataset_whose_rows_differ_is_refused(log: Log) -> None:
    record(log.store, log.blobs, SampleRun("r1"))
    forged = "a" * 64
    event = DatasetFrozen(dataset=forged, query=QUERY, upto=log.store.head(), rows=3, groups=1, refused=())
    append(log.store, f"dataset/{forged}", event)
    with pytest.raises(DatasetDiffers) as caught:
        load(log.store, log.blobs, log.views, forged)
    assert caught.value.facts["expected"] == forged


def test_a_missing_blob_is_said_to_be_missing(log: Log) -> None:
    record(log.store, MemoryBlobs(), SampleRun("r1"))
    with pytest.raises(BlobMissing):
        log.build()


def test_a_plan_that_is_none_and_a_step_beyond_it_are_named(log: Log) -> None:
    record(log.store, log.blobs, SampleRun("r1"))
    events = list(log.store.read(stream="run/r1"))
    state = run_state("r1", plan="p")
    for plan, words in (("{}", "plan p"), ("[]", "step 0")):
        with pytest.raises(BrokenRun, match=words):
            sft_rows(state, RewardState(), events, lambda _digest, plan=plan: plan)  # type: ignore[misc]
    with pytest.raises(BrokenRun, match="no RunFinished"):
        sft_rows(state, RewardState(), (), lambda _digest: "[]")


def test_oracle_tasks_keep_every_task_a_template_ever_had(log: Log) -> None:
    append(log.store, "sweep/s2", planned(template("contact", "other-task"), template("t2", "o2")))
    assert oracle_tasks(log.store.read()) == {
        "contact": frozenset({"contact-seller", "other-task"}),
        "t2": frozenset({"o2"}),
    }
