"""Recorded replay on the golden log: every run is identical, and each kind of tampering is the first divergence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.executors.recorded_pages import RecordedStep, walk_record
from agents.rollouts.replay import Replayed
from api.errors import NotReplayable, Unknown
from api.history.replay import replay_run
from eventlog.blobs import Blob, BlobStore
from eventlog.errors import BlobMissing
from eventlog.events import Step, StepTaken
from eventlog.store import EventStore, Recorded
from tests.golden.test_golden_samples import golden_log
from tests.unit.test_time_samples import GOLDEN_STORE, golden_blobs, golden_kept, tampered, views_of

RUNS = sorted(item.event.run for item in golden_log() if item.event.type == "RunStarted")
PASSED = "marketplace-1__marketplace.lead_filtered_search__seed1__s0"
FAILED = "marketplace-1__marketplace.lead_filtered_search__seed0__s0"
TREATED = "marketplace-2__marketplace.lead_filtered_search__seed6__s1"
CHALLENGER = "eval-1__challenger__marketplace.lead_filtered_search__seed10000__r0"
ENDS = ("steps", "end", "state", "grade", "reward")
EVERYTHING = ("memory", "plan", *ENDS)
ORDER = ("calls in order", "tokens", "steps in order")
IN_PLACE = ("memory", "plan", *ENDS[:2], *ORDER, *ENDS[2:])


def again(run: str, store: EventStore = GOLDEN_STORE, blobs: BlobStore | None = None) -> Replayed:
    return replay_run(store, blobs or golden_blobs(), views_of(store), run)


def changed(run: str, kind: str, index: int | None = None, **fields: Any) -> EventStore:
    """The golden log with other fields in one event of a run."""

    def is_it(item: Recorded) -> bool:
        event = item.event
        return item.stream == f"run/{run}" and event.type == kind and getattr(event, "index", None) == index

    assert any(map(is_it, golden_log()))
    return tampered(lambda event: event.model_copy(update=fields), is_it)


def event_of(run: str, kind: str, index: int | None = None) -> Any:
    found = (item.event for item in golden_log() if item.stream == f"run/{run}" and item.event.type == kind)
    return next(event for event in found if getattr(event, "index", None) == index)


def diverges(found: Replayed, where: str, *lines: tuple[str, str]) -> None:
    assert (found.outcome, found.divergence is not None) == ("different", True)
    assert found.divergence is not None
    assert found.divergence.where == where
    differing = [
        pair for pair in zip(found.divergence.expected, found.divergence.actual, strict=False) if pair[0] != pair[1]
    ]
    assert differing == list(lines)


@pytest.mark.parametrize("run", RUNS)
def test_every_run_of_the_golden_log_replays_identically_in_everything(run: str) -> None:
    found = again(run)
    assert (found.outcome, found.compared, found.not_compared) == ("identical", EVERYTHING, ())
    assert found.steps == sum(item.event.type == "StepTaken" for item in GOLDEN_STORE.read(stream=f"run/{run}"))


def test_the_golden_log_has_runs_of_every_sort() -> None:
    assert event_of(FAILED, "RunFinished").status == "halted"
    assert event_of(PASSED, "RewardGraded").passed
    assert event_of(TREATED, "RunStarted").spec.candidate is not None
    assert event_of(CHALLENGER, "RunStarted").applied


def test_what_the_text_of_a_page_cannot_say_is_named() -> None:
    assert again(PASSED).trusted == (
        "step 1: that “Make” has the option “Bayliner”",
        "step 2: that “Seller” has the option “Private owner”",
        "step 4: that “Sort by” has the option “Price: low to high”",
    )


# A changed plan ------------------------------------------------------------------------------------------------------


def test_a_plan_that_template_and_memory_do_not_give_is_the_first_divergence() -> None:
    plan = json.loads(golden_kept()[event_of(PASSED, "RunStarted").plan].body)
    plan[3]["value"] = "50000"
    blob = Blob("application/json", json.dumps(plan).encode())
    store = changed(PASSED, "RunStarted", plan=blob.digest)
    found = again(PASSED, store, golden_blobs(added={blob.digest: blob}))
    assert found.divergence is not None
    assert found.divergence.where == "the plan"
    assert '"value":"50000"' in found.divergence.expected[3]
    assert '"value":"40000"' in found.divergence.actual[3]
    assert found.compared == ("memory",)


def test_a_piece_that_was_applied_and_is_not_remembered_is_a_divergence() -> None:
    empty = golden_kept()[event_of(PASSED, "RunStarted").artifact.memory.digest]
    memory = event_of(CHALLENGER, "RunStarted").artifact.memory
    found = replay_run(GOLDEN_STORE, golden_blobs(added={memory.digest: empty}), views_of(GOLDEN_STORE), CHALLENGER)
    assert found.divergence is not None
    assert found.divergence.where == "the plan"
    assert "rw-80280fbd00d0 at step 0" in found.divergence.expected
    assert "rw-80280fbd00d0 at step 0" not in found.divergence.actual


def test_memory_that_its_position_does_not_fold_to_is_a_divergence() -> None:
    store = tampered(lambda _: None, lambda item: item.event.type == "RewriteWon")
    found = replay_run(store, golden_blobs(), views_of(store), CHALLENGER)
    assert found.divergence is not None
    assert found.divergence.where == "memory"


# A changed page ------------------------------------------------------------------------------------------------------


def test_a_page_without_the_field_that_was_filled_diverges_at_that_step() -> None:
    home = next(key for key, blob in golden_kept().items() if blob.body.startswith(b"Home | Harbourline"))
    found = again(PASSED, changed(PASSED, "StepTaken", 6, observation=home))
    diverges(found, "step 7", ("outcome: ok", "outcome: no_such_field"))


def test_a_page_without_the_link_that_was_followed_diverges_at_that_step() -> None:
    page = event_of(PASSED, "StepTaken", 6).observation  # one boat, which is no Bayliner elsewhere
    other = next(
        key
        for key, blob in golden_kept().items()
        if blob.media_type.startswith("text/plain") and b"[label] Email" in blob.body and b"Bayliner" not in blob.body
    )
    assert other != page
    found = again(PASSED, changed(PASSED, "StepTaken", 5, observation=other))
    assert found.divergence is not None
    assert found.divergence.where == "step 6"
    assert "outcome: no_such_link" in found.divergence.actual
    assert "request: none" in found.divergence.actual


# A changed outcome ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "fields", "line"),
    [
        (0, {"outcome": "not_found"}, ("outcome: not_found", "outcome: ok")),
        (5, {"http_status": 500}, ("outcome: ok", "outcome: server_error")),
        (6, {"outcome": "no_such_link"}, ("outcome: no_such_link", "outcome: ok")),
        (7, {"intent": "say who does not ask"}, ("intent: say who does not ask", "intent: say who asks")),
        (10, {"action": "click"}, ("step 10: click", "step 10: submit")),
    ],
)
def test_a_step_that_went_otherwise_is_the_first_divergence(
    index: int, fields: dict[str, Any], line: tuple[str, str]
) -> None:
    diverges(again(PASSED, changed(PASSED, "StepTaken", index, **fields)), f"step {index}", line)


def test_a_step_that_is_missing_or_one_too_many_is_a_divergence() -> None:
    is_last = lambda item: item.stream == f"run/{PASSED}" and getattr(item.event, "index", None) == 10  # noqa: E731
    found = again(PASSED, tampered(lambda _: None, is_last))
    assert found.divergence is not None
    assert (found.divergence.where, found.divergence.expected) == ("step 10", ("no step was taken",))
    found = again(FAILED, changed(FAILED, "StepTaken", 0, outcome="ok", http_status=200))
    assert found.divergence is not None
    assert (found.divergence.where, found.divergence.expected) == ("step 1", ("no step was taken",))


# A changed end -------------------------------------------------------------------------------------------------------


def test_a_status_an_end_state_and_a_reward_that_are_others_are_divergences() -> None:
    diverges(
        again(PASSED, changed(PASSED, "RunFinished", status="halted")),
        "the end",
        ("status: halted", "status: completed"),
    )
    empty = Blob("application/json", b"[]")
    found = again(
        PASSED,
        changed(PASSED, "RunFinished", end_state=empty.digest),
        golden_blobs(added={empty.digest: empty}),
    )
    assert found.divergence is not None
    assert found.divergence.where == "the end state"
    assert ("changes: 1" in found.divergence.expected, "changes: 0" in found.divergence.actual) == (True, True)
    diverges(
        again(FAILED, changed(FAILED, "RewardGraded", score=500_000)),
        "the grade",
        ("score: 500000", "score: 0"),
    )
    cost = event_of(PASSED, "RewardGraded").cost
    found = again(PASSED, changed(PASSED, "RewardGraded", cost=cost + 1))
    assert found.divergence is not None
    assert found.divergence.where == "the reward"
    assert (found.divergence.expected[0], found.divergence.actual[0]) == (f"cost: {cost + 1}", f"cost: {cost}")


# What is not there ---------------------------------------------------------------------------------------------------


def test_an_erased_page_plan_or_end_state_makes_the_answer_erased() -> None:
    started, finished = event_of(PASSED, "RunStarted"), event_of(PASSED, "RunFinished")
    for address in (started.plan, event_of(PASSED, "StepTaken", 0).observation, finished.end_state):
        found = again(PASSED, blobs=golden_blobs(erased=address))
        assert (found.outcome, found.erased, found.divergence) == ("erased", address, None)


def test_what_is_missing_is_not_compared_and_said() -> None:
    unplanned = tampered(lambda _: None, lambda item: item.event.type in {"SweepPlanned", "PriceBookSet"})
    found = again(PASSED, unplanned)
    assert (found.outcome, found.compared) == ("identical", ("memory", "steps", "end", "state", "grade"))
    assert found.not_compared == (
        "plan: its template is not in the log",
        "reward: no price book of version 1 is in the log",
    )
    elsewhere = changed(PASSED, "RewardGraded", version="oracle-9")
    assert again(PASSED, elsewhere).not_compared == (
        "grade: No verifier has the version 'oracle-9': expected one of oracle-1, outcome-1.",
    )


def test_a_shaped_return_is_made_again_under_its_own_formula_alone() -> None:
    reward = event_of(PASSED, "RewardGraded")
    assert reward.shaping == "shaped-1"
    found = again(PASSED, changed(PASSED, "RewardGraded", shaped=reward.shaped + 1))
    assert found.divergence is not None
    assert found.divergence.where == "the reward"
    assert found.divergence.expected[-1] == f"shaped: {reward.shaped + 1}"
    assert found.divergence.actual[-1] == f"shaped: {reward.shaped}"
    other = again(PASSED, changed(PASSED, "RewardGraded", shaping="shaped-9", shaped=7))
    assert (other.outcome, other.not_compared) == (
        "identical",
        ("shaped return: the shaping version 'shaped-9' is unknown",),
    )


def test_a_reward_from_before_shaping_is_made_again_without_it() -> None:
    terms = event_of(PASSED, "RewardGraded").terms.model_copy(update={"process": None, "progress": None})
    found = again(PASSED, changed(PASSED, "RewardGraded", shaping=None, shaped=None, terms=terms))
    assert (found.outcome, found.compared) == ("identical", EVERYTHING)


def test_a_run_in_a_window_walks_its_recorded_pages_too_unless_one_changed_in_place() -> None:
    found = again(PASSED, changed(PASSED, "RunStarted", executor="browser"))
    assert (found.outcome, found.compared, found.not_compared) == ("identical", EVERYTHING, ())

    def change(event: Any) -> Any:
        is_start = event.type == "RunStarted"
        return event.model_copy(update={"executor": "browser"} if is_start else {"http_status": None})

    kinds = {"RunStarted", "StepTaken"}
    in_place = tampered(change, lambda item: item.stream == f"run/{PASSED}" and item.event.type in kinds)
    found = again(PASSED, in_place)
    assert (found.outcome, found.compared, found.not_compared) == ("identical", IN_PLACE, ())


def test_where_pages_change_in_place_the_plan_is_walked_again_over_recorded_outcomes() -> None:
    found = again(PASSED, changed(PASSED, "RunStarted", executor="miniwob-plan"))
    assert (found.outcome, found.compared, found.not_compared) == ("identical", IN_PLACE, ())
    step = event_of(PASSED, "StepTaken", 2)

    def otherwise(**fields: Any) -> Replayed:
        def change(event: Any) -> Any:
            is_start = event.type == "RunStarted"
            return event.model_copy(update={"executor": "miniwob-plan"} if is_start else fields)

        def is_changed(item: Any) -> bool:
            is_step = item.event.type == "StepTaken" and item.event.index == 2
            return bool(item.stream == f"run/{PASSED}" and (is_step or item.event.type == "RunStarted"))

        return again(PASSED, tampered(change, is_changed))

    diverges(otherwise(action="act"), "step 2", ("step 2: act", f"step 2: {step.action}"))
    halted = otherwise(outcome="not_found").divergence
    assert halted is not None
    assert (halted.where, halted.actual) == ("step 3", ("no step was taken",))


@pytest.mark.parametrize("outcome", ["ok", "not_found"])
def test_a_plan_in_place_that_a_bound_on_cost_ended_is_walked_to_where_it_ended(outcome: str) -> None:
    usage = event_of(PASSED, "RunFinished").usage.model_copy(update={"actions": 3})
    fields: dict[str, dict[str, Any]] = {
        "RunStarted": {"executor": "miniwob-plan"},
        "RunFinished": {"status": "out_of_budget", "usage": usage},
    }

    def change(event: Any) -> Any:
        if event.type != "StepTaken":
            return event.model_copy(update=fields[event.type])
        return event.model_copy(update={"outcome": outcome}) if event.index == 2 else None

    def is_changed(item: Any) -> bool:
        is_late = item.event.type == "StepTaken" and item.event.index >= 2
        return item.stream == f"run/{PASSED}" and (is_late or item.event.type in fields)

    assert again(PASSED, tampered(change, is_changed)).compared[:4] == ("memory", "plan", "steps", "end")


def test_of_a_run_that_is_not_played_again_the_record_agrees_with_itself() -> None:
    terms = event_of(PASSED, "RewardGraded").terms.model_copy(update={"process": None, "progress": None})
    unshaped = {"shaping": None, "shaped": None, "terms": terms}

    def otherwise(**ended: Any) -> Replayed:
        fields = {"RunStarted": {"executor": "miniwob-script"}, "RewardGraded": unshaped, "RunFinished": ended}

        def is_changed(item: Any) -> bool:
            return bool(item.stream == f"run/{PASSED}" and item.event.type in fields)

        return again(PASSED, tampered(lambda event: event.model_copy(update=fields[event.type]), is_changed))

    found = otherwise()
    assert (found.outcome, found.compared) == ("identical", ("memory", "plan", *ORDER, *ENDS[2:]))
    assert found.not_compared == (
        "steps: the executor 'miniwob-script' is not played again, and nothing answers in place of its site",
    )
    usage = event_of(PASSED, "RunFinished").usage
    more = usage.model_copy(update={"actions": usage.actions + 1})
    diverges(
        otherwise(usage=more),
        "the steps",
        (f"actions: {usage.actions + 1}", f"actions: {usage.actions}"),
    )
    asked = usage.model_copy(update={"input_tokens": 7})
    diverges(
        otherwise(usage=asked),
        "the tokens of its calls",
        ("input tokens: 7", f"input tokens: {usage.input_tokens}"),
    )


def test_a_run_that_cannot_be_replayed_says_why() -> None:
    with pytest.raises(Unknown, match="No run is called 'nothing'"):
        again("nothing")
    unended = tampered(lambda _: None, lambda item: item.event.type == "RunFinished")
    with pytest.raises(NotReplayable, match="it has not ended"):
        again(PASSED, unended)
    with pytest.raises(NotReplayable, match="its executor is 'proxy'"):
        again(PASSED, changed(PASSED, "RunStarted", executor="proxy"))
    with pytest.raises(BlobMissing):
        again(PASSED, changed(PASSED, "RunStarted", plan="0" * 64))


# Pages that their text tells less of ---------------------------------------------------------------------------------


def walked(text: str, *steps: tuple[Step, str]) -> tuple[list[str], tuple[str, ...]]:
    """The outcomes on one recorded page, and what was taken from the record alone."""
    opened = Step(type="navigate", intent="open", url="/x")
    plan = (opened, *(step for step, _ in steps))
    record = [
        RecordedStep(
            step,
            StepTaken.model_validate(
                {
                    "run": "r",
                    "index": index,
                    "action": step.type,
                    "intent": step.intent,
                    "outcome": outcome,
                    "http_status": 200 if page is not None else None,
                    "observation": None,
                }
            ),
            page,
        )
        for index, (step, outcome, page) in enumerate(
            [(opened, "ok", text), *((step, outcome, None) for step, outcome in steps)]
        )
    ]
    found = walk_record(plan, record, max_steps=40)
    return [taken.outcome for taken in found.execution.taken[1:]], found.trusted


def a_step(kind: Any, label: str, value: str | None = None) -> Step:
    return Step(type=kind, intent="do", label=label, value=value)


@pytest.mark.parametrize(
    ("text", "step", "recorded", "replayed_", "trusted"),
    [
        ("[label] Name", a_step("fill_field", "Name", "x"), "ok", "ok", 0),
        ("[label] Name", a_step("fill_field", "Age", "x"), "ok", "no_such_field", 0),
        ("Your age", a_step("fill_field", "age", "x"), "ok", "ok", 1),
        ("[label] Make", a_step("fill_field", "Make", "x"), "no_such_field", "no_such_field", 1),
        ("", a_step("fill_field", "Make", "x"), "no_such_field", "no_such_field", 0),
        ("[label] Make", a_step("select_option", "Make", "Yamaha"), "ok", "ok", 1),
        ("[label] Make", a_step("select_option", "Make", "Yamaha"), "no_such_option", "no_such_option", 1),
        ("", a_step("select_option", "Make", "Yamaha"), "ok", "ok", 2),
        ("", a_step("click", "Boats"), "no_such_link", "no_such_link", 0),
        ("[a] Boats", a_step("click", "Boats"), "no_such_link", "not_found", 0),
        ("x" * 4000, a_step("fill_field", "Name", "x"), "ok", "ok", 1),
        ('[label] a "quoted" <b>', a_step("fill_field", 'a "quoted" <b>', "x"), "ok", "ok", 0),
    ],
)
def test_a_text_decides_what_it_can_and_the_record_the_rest(
    text: str, step: Step, recorded: str, replayed_: str, trusted: int
) -> None:
    outcomes, notes = walked(text, (step, recorded))
    assert (outcomes, len(notes)) == ([replayed_], trusted)
