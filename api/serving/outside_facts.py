"""Facts of runs from outside: how such a run begins, and the event of a call of a model in it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from eventlog.blobs import Blob
from eventlog.blobs.canonical_json import canonical_json
from eventlog.blobs.conversations import link_messages
from eventlog.events import Artifact, Memory, ModelCalled, RunStarted, Spec, TaskSpec

from .calls import ModelAnswer, ModelCall

if TYPE_CHECKING:
    from eventlog.blobs.conversations import Json

JSON_TYPE: Final = "application/json"
NAME_MOST: Final = 200
"""The most characters of a name in an event."""

OUTSIDE_ENVIRONMENT: Final = "outside"
NOTHING: Final = Blob(JSON_TYPE, b"[]")
"""The plan and the memory of a run from outside. It is put before an event names it."""


def outside_start(run: str, group: str, task: str, sweep: str, executor: str, weights: str = "base") -> RunStarted:
    """The first event of a run of an agent that is not ours: no plan and no memory is known of it. It names NOTHING."""
    return RunStarted(
        run=run,
        spec=Spec(spec_id=run, template=task, env_seed=0, group_id=group, sibling_index=0, sweep=sweep),
        task_spec=TaskSpec(
            task_spec_id=task,
            instruction="",
            task_class=task,
            environment=OUTSIDE_ENVIRONMENT,
            max_steps=0,
            success_conditions=(),
        ),
        artifact=Artifact(weights=weights, memory=Memory(upto=0, folds={}, without=(), digest=NOTHING.digest)),
        executor=executor,
        plan=NOTHING.digest,
        applied=(),
        arm=None,
    )


def call_event(
    run: str, call: ModelCall, answer: ModelAnswer, served: Mapping[str, str], index: int = 0
) -> tuple[ModelCalled, tuple[Blob, ...]]:
    """The event of a run's call, the first by default, and its blobs. Pure.

    Raises ValueError for what JSON cannot hold.
    """
    body: dict[str, Json] = {
        **served,
        **({"processed_logprobs": call.has_processed_logprobs} if served else {}),
        "model": answer.model,
        "prompt_token_ids": None if answer.prompt_token_ids is None else list(answer.prompt_token_ids),
        "samples": list(answer.samples),
        "asked": call.asked,
        **({"constrained": True} if call.is_constrained else {}),
        **({} if call.distribution is None else {"distribution": call.distribution}),
    }
    completion = Blob(JSON_TYPE, canonical_json(body))
    nodes = tuple(link_messages(call.messages, lambda blob: blob.digest))
    event = ModelCalled(
        run=run,
        index=index,
        step=None,
        role="policy",
        model=(answer.model or call.model)[:NAME_MOST],
        sampling=call.sampling,
        messages=nodes[-1].digest,
        images=tuple(picture.digest for picture in call.pictures),
        completion=completion.digest,
        has_logprobs=any(sample.get("logprobs") is not None for sample in answer.samples),
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
    )
    return event, (*nodes, *call.pictures, completion)
