"""Events of an execution, and the blobs that they refer to. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, count
from typing import TYPE_CHECKING

from eventlog.blobs import Blob
from eventlog.blobs.canonical_json import canonical_json
from eventlog.blobs.conversations import link_messages
from eventlog.events import ModelCalled, SiteRecorded, Step, StepTaken, StepVerified, Usage

from ..executors.executor import Called, ExecutedStep, Execution, PassedOn, Verified
from ..executors.site_record import SiteRecord
from ..models.model import ChatMessage, Completion, Image, Sample, Served
from ..rewards.steps import operation_of

if TYPE_CHECKING:
    from eventlog.blobs.conversations import Json

PAGE_TYPE = "text/plain; charset=utf-8"
PNG_TYPE = "image/png"
JSON_TYPE = "application/json"
NO_STATE = "0" * 64
"""The fingerprint of a state that is not kept."""
NOT_KEPT = Blob(JSON_TYPE, b'{"kept": false}')
"""An end state that is not kept: no list of changes, so that nobody takes it for one without any."""

StepFact = StepTaken | ModelCalled | StepVerified | SiteRecorded


@dataclass(frozen=True, slots=True)
class Facts:
    """Events in order of occurrence, and their blobs."""

    events: tuple[StepFact, ...]
    blobs: tuple[Blob, ...]


def execution_facts(run: str, execution: Execution) -> Facts:
    """Events and blobs of an execution: for each step the model calls that chose it, the step itself, and its check.

    What the site told comes last, if it was recorded. Model calls are numbered through the run, in this order.
    """
    checks = {check.index: check for check in execution.verified}
    number = count()
    found = [call_facts(run, next(number), call) for call in execution.model_calls if call.step is None]
    for taken in execution.taken:
        found += [call_facts(run, next(number), call) for call in execution.model_calls if call.step == taken.index]
        found.append(_step_facts(run, taken, is_reported=execution.is_reported))
        check = checks.get(taken.index)
        if check is not None:
            found += [call_facts(run, next(number), call) for call in check.model_calls]
            found.append(_check_facts(run, check))
    later = [call for call in execution.model_calls if call.step is not None and call.step >= len(execution.taken)]
    found += [call_facts(run, next(number), call) for call in later]
    found += [] if execution.site is None else [_site_facts(run, execution.site)]
    return Facts(
        tuple(chain.from_iterable(f.events for f in found)), tuple(chain.from_iterable(f.blobs for f in found))
    )


def usage_of(execution: Execution, wall: int) -> Usage:
    """Usage of an execution, without its step checks; `wall` is in microseconds. Reported steps are not counted."""
    return Usage(
        actions=None if execution.is_reported else len(execution.taken),
        wall_microseconds=wall,
        input_tokens=_total(call.input_tokens for call in execution.model_calls),
        output_tokens=_total(call.output_tokens for call in execution.model_calls),
    )


def _total(tokens: Iterable[int | None]) -> int | None:
    """Sum of token counts; None if one is unknown, 0 if no model was called."""
    found = list(tokens)
    return None if None in found else sum(count or 0 for count in found)


def _step_facts(run: str, taken: ExecutedStep, *, is_reported: bool) -> Facts:
    page = None if taken.text is None else Blob(PAGE_TYPE, taken.text.encode())
    picture = None if taken.screenshot is None else Blob(PNG_TYPE, taken.screenshot)
    argument = _reported_argument(taken.step) if is_reported else argument_of(taken.step)
    event = StepTaken(
        run=run,
        index=taken.index,
        action=taken.step.action,
        argument=None if argument is None else argument.digest,
        intent=taken.step.intent,
        outcome=taken.outcome,
        http_status=taken.http_status,
        observation=None if page is None else page.digest,
        screenshot=None if picture is None else picture.digest,
    )
    return Facts((event,), tuple(blob for blob in (argument, page, picture) if blob is not None))


def argument_of(step: Step) -> Blob | None:
    """Argument of an environment's own action: a JSON object as such, anything else as text."""
    if step.type != "act" or step.value is None:
        return None
    return Blob(JSON_TYPE if _is_json_object(step.value) else PAGE_TYPE, step.value.encode())


def _reported_argument(step: Step) -> Blob | None:
    """Argument of a reported step: of a step on a page, its target, which nothing else records."""
    if step.type == "act":
        return argument_of(step)
    given = {name: found for name in ("url", "label", "value") if (found := getattr(step, name))}
    return Blob(JSON_TYPE, canonical_json(given)) if given else None


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def call_facts(run: str, number: int, call: Called | PassedOn) -> Facts:
    """Event and blobs of the model call with this number in its run."""
    if isinstance(call, PassedOn):
        placed = call.event.model_copy(update={"run": run, "index": number, "step": call.step})
        return Facts((placed,), call.blobs)
    request, completion = call.request, call.completion
    nodes = tuple(link_messages([plain_message(message) for message in request.messages], lambda blob: blob.digest))
    pictures = _pictures(request.messages)
    bound = {} if request.schema is None else {"constrained": True}
    answer = Blob(JSON_TYPE, canonical_json({**plain_completion(completion), **bound}))
    event = ModelCalled(
        run=run,
        index=number,
        step=call.step,
        role=call.role,
        model=completion.model,
        sampling=request.sampling,
        messages=nodes[-1].digest,
        images=tuple(picture.digest for picture in pictures),
        completion=answer.digest,
        has_logprobs=any(sample.tokens is not None for sample in completion.samples),
        input_tokens=completion.input_tokens,
        output_tokens=completion.output_tokens,
    )
    return Facts((event,), (*nodes, *pictures, answer))


def _check_facts(run: str, check: Verified) -> Facts:
    said = check.checked
    reason = Blob(PAGE_TYPE, said.reason.encode())
    event = StepVerified(
        run=run,
        index=check.index,
        check=check.check,
        by=said.by,
        said=said.said,
        reason=reason.digest,
        operations=tuple(operation_of(mutation) or "unknown" for mutation in said.delta or ()),
    )
    return Facts((event,), (reason,))


def _site_facts(run: str, site: SiteRecord) -> Facts:
    record = site.blob()
    event = SiteRecorded(run=run, record=record.digest, answers=site.answers, is_whole=site.is_whole)
    return Facts((event,), (record,))


def plain_message(message: ChatMessage) -> Mapping[str, Json]:
    """A message as JSON, with images by address."""
    parts: list[Mapping[str, Json]] = [
        {"text": part}
        if isinstance(part, str)
        else {"image": Blob(part.media_type, part.body).digest, "media_type": part.media_type}
        for part in message.parts
    ]
    return {"role": message.role, "parts": parts}


def plain_completion(completion: Completion) -> Mapping[str, Json]:
    """A completion as JSON: text, finish, token ids and logprobs of each sample; None if the model does not offer them.

    The fields of `served` are written only if known, so that completions without them keep their older form.
    """
    served = completion.served
    return {
        **({} if served is None else _plain_served(served)),
        "model": completion.model,
        "prompt_token_ids": _list_or_none(completion.prompt_token_ids),
        "samples": [_plain_sample(sample) for sample in completion.samples],
    }


def _plain_served(served: Served) -> Mapping[str, Json]:
    return {
        "tokenizer": served.tokenizer,
        "chat_template": served.chat_template,
        "processed_logprobs": served.processed,
    }


def _plain_sample(sample: Sample) -> Mapping[str, Json]:
    tokens = sample.tokens
    return {
        "text": sample.text,
        "finish": sample.finish,
        "tokens": None if tokens is None else [token.text for token in tokens],
        "logprobs": None if tokens is None else [token.logprob for token in tokens],
        "token_ids": _list_or_none(sample.token_ids),
    }


def _list_or_none(ids: tuple[int, ...] | None) -> list[Json] | None:
    return None if ids is None else list(ids)


def _pictures(messages: Iterable[ChatMessage]) -> tuple[Blob, ...]:
    found = (Blob(p.media_type, p.body) for m in messages for p in m.parts if isinstance(p, Image))
    return tuple({blob.digest: blob for blob in found}.values())
