"""A generated log of policy runs: eight siblings per group, two calls per run, one row of tokens each.

Runs of a group share the prompt and have different completions; every other run passes. Generation is deterministic.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from rich.progress import Progress

from eventlog.blobs import Blob, PostgresBlobs
from eventlog.blobs.conversations import link_messages
from eventlog.codec import EncodedAppend, EncodedEvent, content_digest
from eventlog.database import open_engine
from eventlog.events import EVENT_TYPES
from eventlog.postgres import PostgresStore
from eventlog.store import Committed

SIBLINGS = 8
VOCABULARY = 32_000
PROMPT, DRAWN, SEEN = 160, 40, 60
"""Numbers of tokens of the first prompt, of an answer, and of the page between answers."""

PROCESSES = 2
_GROUPS = 40
"""Groups per commit."""

Payload = dict[str, Any]

_ACTOR = "runner"
_SAMPLING: Payload = {
    "max_tokens": 256,
    "samples": 1,
    "seed": None,
    "stop": [],
    "temperature_micro": 1_000_000,
    "top_p_micro": 1_000_000,
    "wants_logprobs": True,
}
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["benchmarks.datasets.workload"])


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_MEMORY = {"upto": 395, "folds": {"rewrites": 1}, "without": [], "digest": _sha("memory")}
_TOKENIZER, _TEMPLATE = _sha("tokenizer"), _sha("template")
_SYSTEM = "You operate a web site one step at a time. Answer with one action as a JSON object. " * 3


@dataclass(frozen=True, slots=True)
class Turn:
    """Tokens that one call sampled, their logprobs, and the tokens of the page after it."""

    ids: Sequence[int]
    logprobs: Sequence[float]
    seen: Sequence[int]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Prompt and sampled tokens of a run's calls, and the digests of tokenizer and template."""

    prompt: Sequence[int]
    turns: Sequence[Turn]
    tokenizer: str = _TOKENIZER
    chat_template: str = _TEMPLATE


def fill(url: str, project: str, runs: int) -> None:
    """Add runs until the project's log holds `runs` runs."""
    engine = open_engine(url, project)
    with engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT count(*) FROM stream_versions WHERE stream LIKE 'run/%%'").scalar()
    engine.dispose()
    first, end = (found or 0) // SIBLINGS, runs // SIBLINGS
    with _CONTEXT.Pool(PROCESSES) as pool, Progress(transient=True) as progress:
        task = progress.add_task(f"filling up to {runs:,} runs", total=end - first)
        jobs = ((url, project, start, min(start + _GROUPS, end)) for start in range(first, end, _GROUPS))
        for done in pool.imap_unordered(_append, jobs):
            progress.advance(task, done)


def _append(job: tuple[str, str, int, int]) -> int:
    url, project, first, end = job
    engine = open_engine(url, project)
    blobs: list[Blob] = []
    requests = [
        run_of(group, index, _made(group, index), blobs) for group in range(first, end) for index in range(SIBLINGS)
    ]
    PostgresBlobs(engine, waits=False).put(blobs)
    outcomes = PostgresStore(engine).append_encoded(requests)
    engine.dispose()
    if not all(isinstance(outcome, Committed) for outcome in outcomes):
        raise ValueError(f"an append was refused: {next(o for o in outcomes if not isinstance(o, Committed))}")
    return end - first


def run_of(group: int, index: int, tokens: Tokens, blobs: list[Blob]) -> EncodedAppend:
    """Encode the append of one run; add its blobs to `blobs`."""
    name = f"made__marketplace.task__seed{group}"
    run, own = f"{name}__s{index}", random.Random(f"{group}/{index}")  # noqa: S311 seeded
    events = [*_begun(run, name, group, index)]
    prompt = [*tokens.prompt]
    said = [_SYSTEM, f"The task of {name}: find the cheapest boat. " * 6]
    for number, turn in enumerate(tokens.turns):
        answer = f'{{"why": "run {own.random()}", "action": "click", "target": "link {number}", "value": ""}}'
        completion = _completion(tokens, prompt, turn, answer)
        blobs.append(completion)
        events.append(_call(run, number, said, completion.digest, blobs, (len(prompt), len(turn.ids))))
        events.append(_step(run, number))
        said = [*said, answer, f"ok, status 200\n<page>\npage {own.random()} of {name}\n" + "a boat for sale\n" * 12]
        prompt = [*prompt, *turn.ids, *turn.seen]
    events += _ended(run, name, index)
    rows = tuple(_encoded(kind, payload) for kind, payload in events)
    stream = f"run/{run}"
    return EncodedAppend(stream, 0, f"made:{run}", content_digest(stream, rows), _ACTOR, None, rows)


def _made(group: int, index: int) -> Tokens:
    shared, own = random.Random(group), random.Random(f"{group}/{index}/tokens")  # noqa: S311 seeded
    turns = [Turn(_ids(own, DRAWN), [-own.expovariate(2.0) for _ in range(DRAWN)], _ids(own, SEEN)) for _ in range(2)]
    return Tokens(_ids(shared, PROMPT), turns)


def _ids(drawing: random.Random, number: int) -> list[int]:
    return drawing.choices(range(VOCABULARY), k=number)


def _begun(run: str, group: str, seed: int, index: int) -> Iterator[tuple[str, Payload]]:
    spec = {"spec_id": run, "template": "marketplace.task", "env_seed": seed, "group_id": group, "candidate": None}
    task = {"task_spec_id": "marketplace.task", "instruction": "Find the cheapest boat.", "task_class": "navigation"}
    yield (
        "RunStarted",
        {
            "run": run,
            "spec": {**spec, "sibling_index": index, "sweep": "made"},
            "task_spec": {**task, "environment": "marketplace", "max_steps": 40, "success_conditions": []},
            "artifact": {"weights": "base", "memory": _MEMORY},
            "executor": "policy",
            "plan": _sha("plan"),
            "applied": [],
            "arm": None,
        },
    )
    yield "InstanceReset", {"run": run, "group": group, "seed": seed, "fingerprint": _sha(group)}


def _completion(tokens: Tokens, prompt: list[int], turn: Turn, answer: str) -> Blob:
    sample = {
        "text": answer,
        "finish": "stop",
        "tokens": [f"t{token}" for token in turn.ids],
        "logprobs": turn.logprobs,
        "token_ids": turn.ids,
    }
    drawn_by = {"tokenizer": tokens.tokenizer, "chat_template": tokens.chat_template}
    told = {"model": "m1", "prompt_token_ids": prompt, **drawn_by, "samples": [sample]}
    return Blob("application/json", json.dumps(told, sort_keys=True, separators=(",", ":")).encode())


def _call(
    run: str, number: int, said: list[str], completion: str, blobs: list[Blob], lengths: tuple[int, int]
) -> tuple[str, Payload]:
    roles = ("system", "user", "assistant", "user")
    messages: list[dict[str, Any]] = [
        {"role": roles[place], "parts": [{"text": text}]} for place, text in enumerate(said)
    ]
    nodes = list(link_messages(messages, lambda blob: blob.digest))
    blobs += nodes
    return (
        "ModelCalled",
        {
            "run": run,
            "index": number,
            "step": number,
            "role": "policy",
            "model": "m1",
            "sampling": _SAMPLING,
            "messages": nodes[-1].digest,
            "images": [],
            "completion": completion,
            "has_logprobs": True,
            "input_tokens": lengths[0],
            "output_tokens": lengths[1],
        },
    )


def _step(run: str, number: int) -> tuple[str, Payload]:
    seen = {"outcome": "ok", "http_status": 200, "observation": None}
    return "StepTaken", {"run": run, "index": number, "action": "click", "intent": "come nearer", **seen}


def _ended(run: str, group: str, index: int) -> Iterator[tuple[str, Payload]]:
    usage = {"actions": 2, "wall_microseconds": 9_000, "input_tokens": None, "output_tokens": None}
    ended = {"run": run, "status": "completed", "fingerprint": _sha(run), "end_state": _sha("end"), "mutations": 1}
    yield "RunFinished", {**ended, "usage": usage}
    score = 1_000_000 * (index % 2)
    grade = {"run": run, "group": group, "channel": "oracle", "version": "oracle-1", "score": score}
    terms = {"score": score, "lambda_per_dollar": 100_000, "penalty": 20, "process": 700_000, "progress": 900_000}
    priced = {"terms": terms, "prices": 1, "cost": 200, "shaping": "shaped-1", "again": False, "reasons": []}
    shaped = 600_000 + 1_000 * index + 2 * score
    yield "RewardGraded", {**grade, **priced, "passed": score > 0, "value": score - 20, "shaped": shaped}


def _encoded(kind: str, payload: Payload) -> EncodedEvent:
    body, version = msgspec.json.encode(payload, order="deterministic"), EVENT_TYPES[kind].schema_version
    head = b'{"actor":"%b","cause":null,"payload":%b,' % (_ACTOR.encode(), body)
    whole = head + b'"schema_version":%d,"type":"%b"}' % (version, kind.encode())
    return EncodedEvent(kind, version, body, hashlib.sha256(whole).digest())
