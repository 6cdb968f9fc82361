"""What an execution left, as facts: in which order, under which numbers."""

from __future__ import annotations

from agents.executors.executor import Called, ExecutedStep, Execution, Verified
from agents.learning.step_checks import Checked
from agents.models.model import ChatMessage, Completion, CompletionRequest, Exchange, Sample
from agents.rollouts.facts import execution_facts
from eventlog.events import ModelCalled, ModelRole, Sampling, Step

GREEDY = Sampling(temperature_micro=0, max_tokens=9)
CLICK = Step(type="click", intent="go", label="Next")


def exchange(words: str) -> Exchange:
    request = CompletionRequest((ChatMessage("user", (words,)),), GREEDY)
    return Exchange(request, Completion("m", (Sample(words, "stop"),), 1, 1))


def call(role: ModelRole, step: int | None) -> Called:
    made = exchange(f"{role} {step}")
    return Called(role, step, made.request, made.completion)


def checked(index: int, *, asked: bool) -> Verified:
    said = Checked("passed", "model", "it shows", exchange=exchange(f"check {index}") if asked else None)
    return Verified(index, "page", said)


def test_calls_stand_before_the_step_they_chose_and_a_verifiers_after_it() -> None:
    taken = tuple(ExecutedStep(index, CLICK, "ok", 200, "a page") for index in range(2))
    called = (call("decomposer", None), call("policy", 0), call("policy", 1), call("policy", 1), call("policy", 2))
    verified = (checked(0, asked=True), checked(1, asked=False))
    found = execution_facts("r", Execution(taken, "halted", called, verified)).events
    assert [
        f"{event.role} {event.step}"
        if isinstance(event, ModelCalled)
        else f"{event.type} {getattr(event, 'index', None)}"
        for event in found
    ] == [
        "decomposer None",
        "policy 0",
        "StepTaken 0",
        "verifier 0",
        "StepVerified 0",
        "policy 1",
        "policy 1",
        "StepTaken 1",
        "StepVerified 1",
        "policy 2",
    ]
    calls = [event for event in found if isinstance(event, ModelCalled)]
    assert [event.index for event in calls] == list(range(6))


def test_every_blob_that_an_event_names_is_there() -> None:
    taken = (ExecutedStep(0, CLICK, "ok", 200, "a page", b"png"),)
    facts = execution_facts("r", Execution(taken, "completed", (call("policy", 0),), (checked(0, asked=True),)))
    there = {blob.digest for blob in facts.blobs}
    for event in facts.events:
        named = {
            getattr(event, name, None) for name in ("messages", "completion", "observation", "screenshot", "reason")
        }
        assert named - {None} <= there
