"""Plans in free text: what comes of an answer, what is refused, and that a model is asked once."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from agents.models.errors import ModelFailure
from agents.models.model import Offers, Sample
from agents.models.scripted import Scripted
from agents.models.structured import answer_schema
from agents.rollouts.decompose import (
    MOST_STEPS,
    PROMPT_VERSION,
    SYSTEM,
    PlannedSteps,
    decompose,
    decompose_text,
    plan_from_answer,
    plan_key,
)
from agents.rollouts.errors import BadSweep, PlanRefused
from agents.rollouts.sweep import SeedSweep
from benchmarks.shipped import PLANS
from eventlog.blobs import MemoryBlobs
from eventlog.blobs.conversations import get_messages
from eventlog.events import ModelCalled, Step, Template
from tests.unit.test_agent_samples import a_store

TEXT = "Open the boats page and search."
PLAN = (
    Step(type="navigate", intent="open the boats", url="/boats"),
    Step(type="submit", intent="search", label="Search"),
)


def answer(*steps: Step | dict[str, Any]) -> str:
    empty = {"intent": "x", "url": None, "label": None, "value": None}
    return json.dumps({"steps": [step.model_dump() if isinstance(step, Step) else empty | step for step in steps]})


def free(text: str = TEXT, max_steps: int = 40) -> Template:
    return Template(
        template_id="t", cluster="c", oracle_task_id="t", instruction="Search.", plan_text=text, max_steps=max_steps
    )


def test_a_text_becomes_a_plan_and_the_call_is_a_fact() -> None:
    store, blobs, model = a_store(), MemoryBlobs(), Scripted([answer(*PLAN)])
    assert decompose_text(TEXT, model, store, blobs) == PLAN
    (recorded,) = store.read()
    event = recorded.event
    assert isinstance(event, ModelCalled)
    assert recorded.stream == event.run == f"plan/{plan_key(TEXT, model)}"
    assert (event.role, event.step, event.model, event.sampling.temperature_micro) == (
        "decomposer", None, "scripted", 0,
    )  # fmt: skip
    messages = get_messages(blobs, event.messages)
    assert messages[1] == {"role": "user", "parts": [{"text": TEXT}]}
    assert json.loads(blobs.get(event.completion).body)["samples"][0]["text"] == answer(*PLAN)


def test_a_model_is_asked_once_for_a_text() -> None:
    store, blobs = a_store(), MemoryBlobs()
    decompose_text(TEXT, Scripted([answer(*PLAN)]), store, blobs)
    silent = Scripted([])
    assert decompose_text(TEXT, silent, store, blobs) == PLAN
    assert silent.requests == ()
    assert len(list(store.read())) == 1


@pytest.mark.parametrize("other", [TEXT + " ", TEXT.lower(), f"Read-only: {TEXT}", f"{TEXT} Change nothing."])
def test_another_text_is_another_plan(other: str) -> None:
    assert plan_key(other, Scripted([])) != plan_key(TEXT, Scripted([])) == plan_key(str(TEXT), Scripted([]))


def test_another_model_is_asked_anew() -> None:
    store, blobs = a_store(), MemoryBlobs()
    decompose_text(TEXT, Scripted([answer(*PLAN)]), store, blobs)
    other = Scripted([answer(PLAN[0])], name="other")
    assert decompose_text(TEXT, other, store, blobs) == PLAN[:1]
    assert decompose_text(TEXT, Scripted([]), store, blobs) == PLAN


def test_what_another_process_recorded_meanwhile_stands() -> None:
    store, blobs = a_store(), MemoryBlobs()

    def late(_request: object) -> str:
        decompose_text(TEXT, Scripted([answer(PLAN[0])]), store, blobs)
        return answer(*PLAN)

    assert decompose_text(TEXT, Scripted(late), store, blobs) == PLAN[:1]
    assert len(list(store.read())) == 1


NAVIGATE = {"type": "navigate", "url": "/"}


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("First I open the page.", "Invalid JSON"),
        ("{}", "steps: Field required"),
        (json.dumps({"steps": [{"type": "navigate"}]}), "steps.0.intent"),
        (answer(), "it has 0 steps"),
        (answer({"type": "loop"}), "step 1 is a `loop`, which our executors do not know"),
        (answer(NAVIGATE, {"type": "extract_data"}), "step 2 is a `extract_data`"),
        (answer(NAVIGATE, {"type": "dance"}), "step 2 is of no known type"),
        (answer(NAVIGATE, {"type": "click_at", "value": "1,2"}), "step 2 is of no known type"),
        (answer({"type": "click", "label": "Boats"}), "its first step opens no page"),
        (answer({"type": "navigate"}), "step 1, navigate, lacks url"),
        (answer({"type": "navigate", "url": "http://else.test/"}), "step 1 leads off"),
        (answer(NAVIGATE, {"type": "click", "label": " "}), "step 2, click, lacks label"),
        (answer(NAVIGATE, {"type": "fill_field", "label": "Name"}), "step 2, fill_field, lacks value"),
        (answer(NAVIGATE, {"type": "submit", "value": "Send"}), "step 2, submit, lacks label"),
        (answer(NAVIGATE, {"type": "click", "label": "a\x00b"}), "step 2 contains characters"),
    ],
)
def test_an_answer_that_is_no_plan_is_refused_with_what_is_wrong_and_leaves_nothing(said: str, what: str) -> None:
    store, blobs = a_store(), MemoryBlobs()
    with pytest.raises(PlanRefused, match=what.replace(".", r"\.")):
        decompose_text(TEXT, Scripted([said]), store, blobs)
    assert list(store.read()) == []
    assert decompose_text(TEXT, Scripted([answer(*PLAN)]), store, blobs) == PLAN


def test_a_plan_is_bounded() -> None:
    assert len(plan_from_answer("m", Sample(answer(*[NAVIGATE] * MOST_STEPS), "stop"))) == MOST_STEPS
    with pytest.raises(PlanRefused, match=f"it has {MOST_STEPS + 1} steps"):
        plan_from_answer("m", Sample(answer(*[NAVIGATE] * (MOST_STEPS + 1)), "stop"))


def test_an_answer_that_was_cut_off_says_so() -> None:
    with pytest.raises(PlanRefused, match="ran out of tokens"):
        plan_from_answer("m", Sample('{"steps": [', "length"))


def test_a_step_keeps_what_its_type_needs_and_no_more() -> None:
    crowded = {"type": "click", "intent": " ", "url": "/x", "label": "Boats", "value": "y"}
    plan = plan_from_answer("m", Sample(answer(NAVIGATE, crowded), "stop"))
    assert plan[1] == Step(type="click", intent="click", label="Boats")


def test_every_plan_we_ship_can_be_answered() -> None:
    for plan in PLANS.values():
        assert plan_from_answer("m", Sample(answer(*plan), "stop")) == plan


def test_a_model_that_does_not_answer_is_no_plan() -> None:
    store = a_store()
    with pytest.raises(ModelFailure):
        decompose_text(TEXT, Scripted([]), store, MemoryBlobs())
    assert list(store.read()) == []


def test_a_model_without_structured_output_is_told_the_shape() -> None:
    model = Scripted(
        [f"```json\n{answer(*PLAN)}\n```"],
        offers=Offers(logprobs=False, token_ids=False, seed=False, images=False, schema=False),
    )
    assert decompose_text(TEXT, model, a_store(), MemoryBlobs()) == PLAN
    assert '{"steps": [' in model.requests[0].messages[0].text


def test_a_template_in_free_text_can_be_swept_once_it_is_decomposed() -> None:
    store, blobs, model = a_store(), MemoryBlobs(), Scripted([answer(*PLAN)])
    with pytest.raises(BadSweep, match="decompose it first"):
        SeedSweep("s", [free()], [1]).specs()
    made = decompose(free(), model, store, blobs)
    assert (made.plan_text, made.plan_steps) == (TEXT, PLAN)
    assert len(SeedSweep("s", [made], [1, 2]).specs()) == 2
    assert decompose(made, Scripted([]), store, blobs) == made


def test_a_plan_longer_than_its_template_allows_is_refused() -> None:
    with pytest.raises(PlanRefused, match=r"it has 2 steps.*at most 1"):
        decompose(free(max_steps=1), Scripted([answer(*PLAN)]), a_store(), MemoryBlobs())


def test_the_prompt_has_a_version_that_changes_with_it() -> None:
    shape = json.dumps(answer_schema(PlannedSteps).schema, sort_keys=True)
    found = hashlib.sha256(f"{SYSTEM}{shape}".encode()).hexdigest()[:16]
    assert (PROMPT_VERSION, found) == ("decompose-1", "df180054608d0d5a")
