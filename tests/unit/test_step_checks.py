"""The step checks in their two forms, each on its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agents.learning.step_checks import (
    ModelVerifier,
    OracleVerifier,
    StepObservation,
    StepVerifier,
    step_check_messages,
    verifier_for,
    verify_observation,
)
from agents.models.model import Image
from agents.models.scripted import Scripted
from benchmarks.shipped import OPERATIONS

TABLE = OPERATIONS["marketplace"].table
PASSED, FAILED = '{"passed": true, "reason": "it shows"}', '{"passed": false, "reason": "it does not"}'
PICTURE = Image("image/png", b"\x89PNG")
LEAD: dict[str, object] = {"id": 4, "operation": "lead_submitted", "target_type": "boat", "target_id": "7"}
PHONE: dict[str, object] = {"id": 5, "operation": "phone_revealed", "target_type": "boat", "target_id": "7"}
KINDS = ("filter", "navigate", "submit_lead", None)


def seen(kind: str | None = "submit_lead", **changes: Any) -> StepObservation:
    return StepObservation(
        kind, "request details", "a page that thanks", **{"http_status": 200, "page": "Thank you", **changes}
    )


def oracle(*mutations: Mapping[str, object], **more: str) -> OracleVerifier:
    return OracleVerifier(lambda since: {"mutations": list(mutations), **more}, TABLE)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("said", "expected"), [(PASSED, "passed"), (FAILED, "failed")])
def test_a_model_is_asked_once_a_check_and_its_word_is_taken(kind: str | None, said: str, expected: str) -> None:
    model = Scripted([said])
    found = verify_observation(ModelVerifier(model), seen(kind))
    assert (found.said, found.by, found.delta, len(model.requests)) == (expected, "model", None, 1)


def test_each_check_asks_its_own_question_about_text_or_picture() -> None:
    questions = {step_check_messages(question, seen())[1].text for question in ("filter", "page", "step")}
    assert len(questions) == 3
    assert all("request details" in question and "Thank you" in question for question in questions)
    system, asked = step_check_messages("step", seen(screenshot=PICTURE))
    assert system.role == "system"
    assert asked.parts[1:] == (PICTURE,)
    assert "Thank you" not in asked.text
    assert len(step_check_messages("step", seen(page="x" * 99_999))[1].text) < 5_000


@pytest.mark.parametrize("said", ["yes", "{}", "", '{"passed": "true", "reason": ""}'])
def test_a_model_that_does_not_answer_is_no_signal(said: str) -> None:
    assert verify_observation(ModelVerifier(Scripted([said])), seen()).said == "unknown"


def test_without_a_page_no_model_is_asked() -> None:
    model = Scripted([])
    assert verify_observation(ModelVerifier(model), seen(page=None)).said == "unknown"
    assert model.requests == ()


@pytest.mark.parametrize(
    ("kind", "mutations", "status", "expected"),
    [
        ("submit_lead", [LEAD], 200, "passed"),
        ("submit_lead", [], 200, "failed"),
        ("submit_lead", [PHONE], 200, "failed"),
        ("submit_lead", [LEAD, PHONE], 200, "failed"),
        ("submit_lead", [LEAD], 422, "failed"),
        ("filter", [], 200, "passed"),
        ("filter", [], 422, "failed"),
        ("filter", [LEAD], 200, "failed"),
        ("navigate", [], 200, "passed"),
        ("navigate", [], 404, "failed"),
        ("navigate", [PHONE], 200, "failed"),
        ("fill", [], None, "passed"),
        (None, [LEAD], 200, "passed"),
        (None, [], 200, "passed"),
        (None, [{"operation": "boat_deleted", "id": 1}], 200, "failed"),
        ("filter", [{"id": 1}], 200, "failed"),
    ],
)
def test_the_oracle_says_what_the_site_recorded(
    kind: str | None, mutations: list[dict[str, object]], status: int | None, expected: str
) -> None:
    found = verify_observation(oracle(*mutations), seen(kind, http_status=status))
    assert (found.said, found.by, found.delta) == (expected, "oracle", mutations)


def test_a_site_that_does_not_answer_is_no_signal_and_nothing_is_skipped_later() -> None:
    asked: list[int] = []
    answers: list[dict[str, Any]] = [
        {"mutations": [LEAD]},
        {"mutations": [], "error": "down"},
        {"mutations": [PHONE]},
        {"mutations": []},
    ]

    def look(since: int) -> dict[str, Any]:
        asked.append(since)
        return answers[len(asked) - 1]

    verifier = OracleVerifier(look, TABLE)
    said = [
        verify_observation(verifier, seen(kind)).said for kind in ("submit_lead", "filter", "phone_reveal", "navigate")
    ]
    assert said == ["passed", "unknown", "passed", "passed"]
    assert asked == [0, 4, 4, 5]


def test_with_a_site_its_record_answers_even_where_it_is_down_and_without_one_the_model() -> None:
    model = Scripted([PASSED])
    by_model: StepVerifier = ModelVerifier(model)
    assert verify_observation(verifier_for(by_model, oracle(error="down")), seen()).said == "unknown"
    assert verify_observation(verifier_for(by_model, oracle(LEAD)), seen()).by == "oracle"
    assert model.requests == ()
    assert verify_observation(verifier_for(by_model, None), seen()).by == "model"
    assert len(model.requests) == 1
