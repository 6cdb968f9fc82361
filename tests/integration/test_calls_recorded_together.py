"""Calls that are answered at the same time are recorded together, and a fault of one is that one's alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy.exc import DataError

from api.house import House
from api.serving.calls import ModelAnswer, ModelCall
from api.serving.capture import Capture, RunOpening
from api.serving.dialects import CHAT
from api.serving.errors import RunClosed
from eventlog.codec import EncodedAppend
from eventlog.errors import UnstorableText
from eventlog.events import ModelCalled, RunMissing
from eventlog.postgres import PostgresStore
from eventlog.store import Append

ASKED = CHAT.read_call({"model": "m", "messages": [{"role": "user", "content": "How much is 2 + 2?"}]})
SAMPLE = {"text": "Four.", "finish": "stop", "tokens": None, "logprobs": None, "token_ids": None}
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


def calls_of(house: House, run: str) -> list[ModelCalled]:
    return [each.event for each in house.store.read(stream=f"run/{run}") if isinstance(each.event, ModelCalled)]


def test_each_call_gets_the_next_number_of_its_run_also_beside_another_of_the_same(empty_house: House) -> None:
    capture = opened(empty_house, "ext-1", "ext-2")
    runs = ["ext-1", "ext-2", "ext-1", "ext-1"]
    assert capture.record_each([asked(run) for run in runs]) == [None] * 4
    assert [each.index for each in calls_of(empty_house, "ext-1")] == [0, 1, 2]
    assert [each.index for each in calls_of(empty_house, "ext-2")] == [0]
    commits = empty_house.store.group.counts.commits
    assert capture.record_each([asked("ext-1"), asked("ext-2")]) == [None, None]
    assert empty_house.store.group.counts.commits == commits + 1


def test_a_call_that_cannot_be_recorded_takes_no_other_with_it(empty_house: House) -> None:
    capture = opened(empty_house, "ext-1", "ext-2", "ext-3", "ext-4")
    empty_house.store.append(
        [Append("run/ext-2", (RunMissing(run="ext-2", group="ext-2", reason="interrupted", detail=""),), actor="test")]
    )
    unstorable, infinite = replace(ANSWER, model="m\0"), replace(ANSWER, samples=({**SAMPLE, "logprobs": [-1e999]},))
    answers = {"ext-2": ANSWER, "ext-1": ANSWER, "ext-3": unstorable, "ext-4": infinite}
    found = capture.record_each([asked(run, answer) for run, answer in answers.items()])
    assert [type(each) for each in found] == [RunClosed, type(None), UnstorableText, ValueError]
    assert {run: len(calls_of(empty_house, run)) for run in answers} == {"ext-1": 1, "ext-2": 0, "ext-3": 0, "ext-4": 0}
    assert capture.record_each([asked("ext-3"), asked("ext-4")]) == [None, None]


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
