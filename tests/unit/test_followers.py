"""The rule agent of the demonstrations: it follows sentences, and goes on where what they name is not there."""

from __future__ import annotations

import json

import pytest

from agents.learning.advice import advice_paragraph
from agents.learning.guidance import guidance_paragraph
from agents.models.model import ChatMessage, CompletionRequest
from eventlog.events import Sampling, Step
from tests.followers import Follower, answer

PLAN = (
    Step(type="navigate", intent="x", url="/"),
    Step(type="fill_field", intent="x", label="Name", value="Alex"),
    Step(type="submit", intent="x", label="Send"),
)
TASK = "Send for Alex as Name."
BEFORE = "Before you write 'Alex' into 'Name': choose 'checked' at 'I am no robot'."
INSTEAD = "Press the button 'Send now', not: press the button 'Send'."


def ask(told: str, *done: tuple[str, str]) -> dict[str, str]:
    """The agent's next answer after what it did and how that went, with a lesson as advice or as its instruction."""
    system, _, advice = told.partition("|")
    messages = [ChatMessage("system", (f"Act.\n\n{guidance_paragraph(system)}",))]
    messages.append(ChatMessage("user", (f"The task:\n{TASK}\n\n{advice_paragraph(filter(None, [advice]))}No page.",)))
    for sentence, outcome in done:
        messages.append(ChatMessage("assistant", (answer(sentence),)))
        messages.append(ChatMessage("user", (f"{outcome}, status 200\n<page>\npage /, status 200\n</page>",)))
    found: dict[str, str] = json.loads(
        Follower(PLAN, TASK)(CompletionRequest(tuple(messages), Sampling(temperature_micro=0, max_tokens=99)))
    )
    return found


@pytest.mark.parametrize("told", [f"|{BEFORE}", BEFORE])
def test_what_a_lesson_puts_before_a_step_is_tried_once_and_skipped_where_it_is_not_there(told: str) -> None:
    opened = ("open /", "ok")
    asked = ask(told, opened)
    assert (asked["action"], asked["target"]) == ("select_option", "I am no robot")
    for outcome in ("ok", "no_such_field"):
        asked = ask(told, opened, ("choose 'checked' at 'I am no robot'", outcome))
        assert (asked["action"], asked["target"]) == ("fill_field", "Name")


def test_where_what_a_lesson_puts_in_place_of_a_step_fails_the_step_itself_is_taken() -> None:
    done = (("open /", "ok"), ("write 'Alex' into 'Name'", "ok"))
    assert ask(f"|{INSTEAD}", *done)["target"] == "Send now"
    assert ask(f"|{INSTEAD}", *done, ("press the button 'Send now'", "no_such_field"))["target"] == "Send"
    assert ask(f"|{INSTEAD}", *done, ("press the button 'Send now'", "ok"))["action"] == "finish"
