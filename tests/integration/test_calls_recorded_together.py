"""Calls that are answered at the same time are recorded together, and a fault of one is that one's alone."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, cast

import pytest
from sqlalchemy.exc import DataError

from api.house import House
from api.serving.call_appends import RunOpening
from api.serving.calls import ModelAnswer, ModelCall
from api.serving.capture import Capture
from api.serving.dialects import CHAT
from api.serving.errors import RunClosed
from api.tokens import issue, revoke
from eventlog.blobs import Blob
from eventlog.codec import EncodedAppend
from eventlog.database import open_engine
from eventlog.errors import ObjectStoreUnusable, UnstorableText
from eventlog.events import ModelCalled, RunMissing
from eventlog.postgres import PostgresStore
from eventlog.store import Append

ASKED = CHAT.read_call({"model": "m", "messages": [{"role": "user", "content": "How much is 2 + 2?"}]})
SAMPLE = {"text": "Four.", "finish": "stop", "tokens": None, "logprobs": None, "token_ids": None}
ADDING = {"name": "add", "arguments": "{}"}
ANSWER = ModelAnswer("m", (SAMPLE,), 5, 2)


def opening(run: str) -> RunOpening:
    return RunOpening(run, "agent", run, "outside")


def opened(house: House, *runs: str) -> Capture:
    capture = Capture(house, {})
    for run in runs:
        capture.open_run(opening(run))
    return capture


def asked(run: str, answer: ModelAnswer = ANSWER) -> tuple[RunOpening, ModelCall, ModelAnswer]:
    return opening(run), ASKED, answer


def end(house: House, run: str) -> None:
    missing = RunMissing(run=run, group=run, reason="interrupted", detail="")
    house.store.append([Append(f"run/{run}", (missing,), actor="test")])


def calls_of(house: House, run: str) -> list[ModelCalled]:
    return [each.event for each in house.store.read(stream=f"run/{run}") if isinstance(each.event, ModelCalled)]


def test_calls_of_a_burst_are_one_transaction_and_each_gets_the_next_number_of_its_run(empty_house: House) -> None:
    capture = opened(empty_house, "ext-1", "ext-2")
    runs = ["ext-1", "ext-2", "ext-1", "ext-1"]
    commits = empty_house.store.group.counts.commits
    assert capture.record_each([asked(run) for run in runs]) == [None] * 4
    assert empty_house.store.group.counts.commits == commits + 1
    assert [each.index for each in calls_of(empty_house, "ext-1")] == [0, 1, 2]
    assert [each.index for each in calls_of(empty_house, "ext-2")] == [0]
    last = max(each.position for each in empty_house.store.read(stream="run/ext-1"))
    assert capture.position_of(opening("ext-1")) == last
    assert capture.record_each([asked("ext-1"), asked("ext-2")]) == [None, None]
    assert [each.index for each in calls_of(empty_house, "ext-1")] == [0, 1, 2, 3]


def test_calls_of_a_run_that_threads_record_at_the_same_time_have_each_a_number(empty_house: House) -> None:
    capture = opened(empty_house, "ext-1")
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(capture.record_each, [[asked("ext-1")] * (1 + number % 3) for number in range(20)]))
    assert [each for batch in found for each in batch] == [None] * 39
    assert [each.index for each in calls_of(empty_house, "ext-1")] == list(range(39))
    assert capture.position_of(opening("ext-1")) == max(
        each.position for each in empty_house.store.read(stream="run/ext-1")
    )


@pytest.mark.parametrize("others", [1, 2])
def test_calls_of_a_run_that_another_process_records_too_take_the_numbers_after_its_own(
    empty_house: House, others: int
) -> None:
    here, there = opened(empty_house, "ext-1", "ext-2"), opened(empty_house, "ext-1")
    assert here.record_each([asked("ext-1")]) == [None]
    assert there.record_each([asked("ext-1")] * others) == [None] * others
    assert here.record_each([asked("ext-1"), asked("ext-2"), asked("ext-1")]) == [None] * 3
    assert [each.index for each in calls_of(empty_house, "ext-1")] == list(range(3 + others))
    assert [each.index for each in calls_of(empty_house, "ext-2")] == [0]


def test_no_call_of_a_burst_enters_a_run_that_was_ended_meanwhile(empty_house: House) -> None:
    capture = opened(empty_house, "ext-1", "ext-2")
    assert capture.record_each([asked("ext-1")]) == [None]
    end(empty_house, "ext-1")
    found = capture.record_each([asked("ext-1"), asked("ext-2"), asked("ext-1"), asked("ext-1")])
    assert [type(each) for each in found] == [RunClosed, type(None), RunClosed, RunClosed]
    assert len(calls_of(empty_house, "ext-1")) == 1


@pytest.mark.parametrize(("own", "others"), [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2)])
def test_steps_that_a_burst_tells_are_recorded_once_also_where_another_process_came_before(
    empty_house: House, own: int, others: int
) -> None:
    told: list[Any] = [
        {"role": "user", "content": "How much is 2 + 2?"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": ADDING}]},
        {"role": "tool", "tool_call_id": "c1", "content": "4"},
    ]
    telling = (opening("ext-1"), CHAT.read_call({"model": "m", "messages": told}), ANSWER)
    here, there = opened(empty_house, "ext-1"), opened(empty_house, "ext-1")
    assert here.record_each([asked("ext-1")] * own) == [None] * own
    if others:
        assert there.record_each([asked("ext-1")] * others) == [None] * others
    assert here.record_each([telling, telling, asked("ext-1")]) == [None] * 3
    kinds = [each.event.type for each in empty_house.store.read(stream="run/ext-1")]
    assert kinds == ["RunStarted", *["ModelCalled"] * (own + others), "StepTaken", *["ModelCalled"] * 3]
    assert [each.index for each in calls_of(empty_house, "ext-1")] == list(range(own + others + 3))


def test_a_call_that_cannot_be_recorded_takes_no_other_with_it(empty_house: House) -> None:
    capture = opened(empty_house, "ext-1", "ext-2", "ext-3", "ext-4")
    end(empty_house, "ext-2")
    unreadable = replace(ANSWER, prompt_token_ids=cast("Any", 7))
    unstorable, infinite = replace(ANSWER, model="m\0"), replace(ANSWER, samples=({**SAMPLE, "logprobs": [-1e999]},))
    answers = {"ext-2": ANSWER, "ext-1": ANSWER, "ext-3": unstorable, "ext-4": infinite}
    found = capture.record_each([asked(run, answer) for run, answer in answers.items()])
    assert [type(each) for each in found] == [RunClosed, type(None), UnstorableText, ValueError]
    assert {run: len(calls_of(empty_house, run)) for run in answers} == {"ext-1": 1, "ext-2": 0, "ext-3": 0, "ext-4": 0}
    found = capture.record_each([asked("ext-3"), asked("ext-4", unreadable), asked("ext-4")])
    assert [type(each) for each in found] == [type(None), TypeError, type(None)]
    found = capture.record_each([asked("ext-1"), asked("ext-1", unstorable), asked("ext-1"), asked("ext-3")])
    assert [type(each) for each in found] == [type(None), UnstorableText, type(None), type(None)]
    assert [each.index for each in calls_of(empty_house, "ext-1")] == [0, 1, 2]


def test_where_the_database_refuses_data_of_one_the_others_are_appended(
    empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = PostgresStore.append_encoded

    def refuse(store: PostgresStore, requests: list[EncodedAppend]) -> object:
        if any(each.stream == "run/ext-2" for each in requests):
            raise DataError("a statement", {}, Exception("refused"))
        return append(store, requests)

    capture = opened(empty_house, "ext-1", "ext-2", "ext-3")
    monkeypatch.setattr(PostgresStore, "append_encoded", refuse)
    found = capture.record_each([asked(run) for run in ("ext-1", "ext-2", "ext-3")])
    assert [type(each) for each in found] == [type(None), DataError, type(None)]
    assert [len(calls_of(empty_house, run)) for run in ("ext-1", "ext-2", "ext-3")] == [1, 0, 1]


def test_where_the_database_refuses_blobs_of_one_the_others_are_appended(
    empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, refused = type(empty_house.blobs).put, "How much is it?"

    def refuse(blobs: Any, given: Sequence[Blob]) -> object:
        if any(refused.encode() in blob.body for blob in given):
            raise DataError("a statement", {}, Exception("refused"))
        return put(blobs, given)

    capture = opened(empty_house, "ext-1", "ext-2", "ext-3")
    monkeypatch.setattr(type(empty_house.blobs), "put", refuse)
    odd = CHAT.read_call({"model": "m", "messages": [{"role": "user", "content": refused}]})
    found = capture.record_each([asked("ext-1"), (opening("ext-2"), odd, ANSWER), asked("ext-3")])
    assert [type(each) for each in found] == [type(None), DataError, type(None)]
    assert [len(calls_of(empty_house, run)) for run in ("ext-1", "ext-2", "ext-3")] == [1, 0, 1]


def test_an_outage_is_met_once_for_all_and_nothing_is_recorded_that_may_be_tried_again(
    empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture, tries = opened(empty_house, "ext-1", "ext-2"), []

    def fail(_: object, given: Sequence[Blob]) -> None:
        tries.append(len(given))
        raise ObjectStoreUnusable(url="s3://blobs", actual="it does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(type(empty_house.blobs), "put", fail)
        found = capture.record_each([asked("ext-1"), asked("ext-2"), asked("ext-1")])
    assert [type(each) for each in found] == [ObjectStoreUnusable] * 3
    assert len(tries) == 1
    assert capture.record_each([asked("ext-1"), asked("ext-2")]) == [None, None]
    assert [len(calls_of(empty_house, run)) for run in ("ext-1", "ext-2")] == [1, 1]


def test_a_run_that_cannot_be_read_is_that_calls_fault_alone(
    empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = opened(empty_house, "ext-1")
    read = PostgresStore.read

    def fail(store: PostgresStore, **asked_for: Any) -> object:
        if asked_for.get("stream") == "run/ext-2":
            raise RecursionError("nested too deeply")
        return read(store, **asked_for)

    monkeypatch.setattr(PostgresStore, "read", fail)
    found = capture.record_each([asked("ext-2"), asked("ext-1"), asked("ext-3")])
    assert [type(each) for each in found] == [RecursionError, type(None), RunClosed]
    assert len(calls_of(empty_house, "ext-1")) == 1


def test_of_tokens_that_are_checked_together_each_has_its_own_answer(empty_house: House) -> None:
    first, second, gone = (issue(empty_house.store, name, "test") for name in ("first", "second", "gone"))
    known = empty_house.known_tokens
    known.keep(empty_house.views())
    found = known.find_each([second, "fw_unknown", gone, first])
    assert [None if each is None else each.token for each in found] == ["second", None, "gone", "first"]
    revoke(empty_house.store, empty_house.views(), "gone", "a test", "test")
    assert known.find_each([second, gone]) == [None, None]
    known.keep(empty_house.views())
    found = known.find_each([second, gone, first])
    assert [None if each is None else each.token for each in found] == ["second", None, "first"]


def test_a_check_of_tokens_outlives_a_lost_connection(empty_house: House) -> None:
    token, engine = issue(empty_house.store, "agent", "test"), empty_house.store.engine
    known = empty_house.known_tokens
    known.keep(empty_house.views())
    engine.dispose()  # so that the one connection below is what the check gets
    with engine.connect() as kept:
        lost = kept.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    other = open_engine(engine.url.render_as_string(hide_password=False))
    with other.connect() as killing:
        killing.exec_driver_sql(f"SELECT pg_terminate_backend({lost}, 5000)")
    other.dispose()
    assert [each and each.token for each in known.find_each([token])] == ["agent"]
