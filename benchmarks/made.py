"""Generates events like those of real runs from a number, deterministically.

Four siblings form a group. A run starts in one append; a second append resets, steps, finishes and grades it. Some runs
are missing instead, propose a rewrite, or win or lose a trial of one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from eventlog.codec import EncodedAppend, EncodedEvent, content_digest, decode_event
from eventlog.events import EVENT_TYPES
from eventlog.store import Append

ACTOR = "runner"
STEPS = 10
SIBLINGS = 4
RUNS_A_SWEEP = 400
EVENTS_A_RUN = STEPS + 4
CYCLE = 200
"""Number of runs after which the pattern repeats; rewrites are not referenced across cycles."""

_CREDIT_EVERY = 10
_MISSING_EVERY, _FIRST_MISSING = 50, 23
_TASKS = ("lead_filtered_search", "contact_seller", "saved_search", "compare_boats", "price_alert")
EVENTS_A_CYCLE = CYCLE * EVENTS_A_RUN - CYCLE // _MISSING_EVERY * (EVENTS_A_RUN - 2) + CYCLE // _CREDIT_EVERY

Payload = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """One append: its stream, its key, its expected version, and its events as (type, payload)."""

    stream: str
    key: str
    expect: int | None
    events: tuple[tuple[str, Payload], ...]


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_PLANS = {task: _sha(f"plan of {task}") for task in _TASKS}
_PAGES = [_sha(f"page {number}") for number in range(500)]
_MEMORY = {"upto": 395, "folds": {"rewrites": 1}, "without": [], "digest": _sha("memory at 395")}
_INSTRUCTION = (
    "On the boat marketplace, open the boats page at /boats. Show only Bayliner boats from private owners with a"
    " maximum price of 40000, sorted by price from low to high. Open the cheapest one and request details as"
    " Alex Morgan, alex.morgan@example.com, with the message 'Is it still available?'."
)


def entries_of_run(number: int, prefix: str = "made") -> Iterator[Entry]:
    """Entries of one run: its start, its remaining events, and sometimes one about a rewrite."""
    sweep = f"{prefix}-{number // RUNS_A_SWEEP}"
    task = _TASKS[number // SIBLINGS % len(_TASKS)]
    group = f"{sweep}__marketplace.{task}__seed{number // SIBLINGS}"
    run = f"{group}__s{number % SIBLINGS}"
    rewrite = f"rw-{prefix}-{number // CYCLE}"
    stream, passed = f"run/{run}", number % 3 > 0
    yield Entry(stream, f"start:{run}", 0, (_started(number, run, group, sweep, task, rewrite),))
    if number % _MISSING_EVERY == _FIRST_MISSING:
        missing = {"run": run, "group": group, "reason": "environment_down", "detail": "no answer within 30 seconds"}
        yield Entry(stream, f"finish:{run}", None, (("RunMissing", missing),))
    else:
        yield Entry(stream, f"finish:{run}", None, tuple(_rest(number, run, group, passed=passed)))
    yield from _about_rewrite(number, run, rewrite, passed=passed)


def _started(number: int, run: str, group: str, sweep: str, task: str, rewrite: str) -> tuple[str, Payload]:
    template = f"marketplace.{task}"
    is_treated = number % SIBLINGS == SIBLINGS - 1
    spec = {
        "spec_id": run,
        "template": template,
        "env_seed": number // SIBLINGS,
        "group_id": group,
        "sibling_index": number % SIBLINGS,
        "sweep": sweep,
        "candidate": rewrite if is_treated else None,
    }
    task_spec = {
        "task_spec_id": f"{template}.{_PLANS[task][:8]}",
        "instruction": _INSTRUCTION,
        "task_class": "navigation",
        "environment": "marketplace",
        "max_steps": 40,
        "success_conditions": [f"oracle:{template}"],
    }
    return "RunStarted", {
        "run": run,
        "spec": spec,
        "task_spec": task_spec,
        "artifact": {"weights": "base", "memory": _MEMORY},
        "executor": "plan",
        "plan": _PLANS[task],
        "applied": [{"piece": rewrite, "kind": "rewrite", "step": 0}] if is_treated else [],
        "arm": None,
    }


def _rest(number: int, run: str, group: str, *, passed: bool) -> Iterator[tuple[str, Payload]]:
    yield "InstanceReset", {"run": run, "group": group, "seed": number // SIBLINGS, "fingerprint": _sha(group)}
    for index in range(STEPS):
        failed = not passed and index == STEPS - 1
        yield (
            "StepTaken",
            {
                "run": run,
                "index": index,
                "action": "navigate" if index == 0 else "click",
                "intent": f"open page {index}, to come nearer to the cheapest boat of a private owner",
                "outcome": "not_found" if failed else "ok",
                "http_status": 404 if failed else 200,
                "observation": _PAGES[(number * STEPS + index) % len(_PAGES)],
            },
        )
    wall = 9_000 + number % 1000
    ended = {"run": run, "status": "completed", "fingerprint": _sha(f"end of {run}"), "mutations": 1}
    usage = {"actions": STEPS, "wall_microseconds": wall, "input_tokens": 0, "output_tokens": 0}
    yield "RunFinished", {**ended, "end_state": _sha(f"mutations of {run}"), "usage": usage}
    score = 1_000_000 if passed else 0
    grade = {"run": run, "group": group, "channel": "oracle", "version": "oracle-1", "score": score, "passed": passed}
    process, progress = 725_000, 1_000_000 if passed else 909_090
    terms = {"score": score, "lambda_per_dollar": 100_000, "penalty": 20, "process": process, "progress": progress}
    priced = {"terms": terms, "prices": 1, "cost": 200, "shaping": "shaped-1", "again": False}
    worth = {"value": score - 20, "shaped": 2_681_230 if passed else 619_291}
    reasons = [] if passed else ["the right lead_submitted is missing"]
    yield "RewardGraded", {**grade, **priced, **worth, "reasons": reasons}


def _about_rewrite(number: int, run: str, rewrite: str, *, passed: bool) -> Iterator[Entry]:
    if number % CYCLE == 0:
        kind = "RewriteProposed"
        payload: Payload = {
            "rewrite": rewrite,
            "anchor": {"type": "navigate", "intent": "open the boats page", "content": _sha(rewrite)},
            "change": {"kind": "follow_link", "page": "/", "label": "Boats for sale"},
            "rule": {"name": "seeds", "wins_to_promote": 3, "losses_to_demote": 2, "cold_after_days": 30},
            "run": run,
            "source": "page_links",
            "confidence": 750_000,
        }
    elif number % _CREDIT_EVERY == 0:
        kind = "RewriteWon" if passed else "RewriteLost"
        payload = {"rewrite": rewrite, "run": run, "control_runs": [], "control_successes": 0}
    else:
        return
    yield Entry(f"rewrite/{rewrite}", f"{kind}:{run}", None, ((kind, payload),))


def appends_of_run(number: int, prefix: str = "made") -> tuple[Append, ...]:
    """Appends of one run, with event objects."""
    return tuple(_append(entry) for entry in entries_of_run(number, prefix))


def _append(entry: Entry) -> Append:
    events = tuple(
        decode_event(kind, EVENT_TYPES[kind].schema_version, msgspec.json.encode(payload).decode())
        for kind, payload in entry.events
    )
    return Append(entry.stream, events, ACTOR, entry.expect, entry.key)


def encoded_of_run(number: int, prefix: str = "made") -> tuple[EncodedAppend, ...]:
    """Encoded appends of one run, equal to the output of `encode_append` but ten times as fast."""
    return tuple(encode_entry(entry) for entry in entries_of_run(number, prefix))


def encode_entry(entry: Entry) -> EncodedAppend:
    """An entry as `encode_append` encodes it."""
    rows = []
    for kind, payload in entry.events:
        body, version = msgspec.json.encode(payload, order="deterministic"), EVENT_TYPES[kind].schema_version
        whole = b'{"actor":"%b","cause":null,"payload":%b,"schema_version":%d,"type":"%b"}' % (
            ACTOR.encode(),
            body,
            version,
            kind.encode(),
        )
        rows.append(EncodedEvent(kind, version, body, hashlib.sha256(whole).digest()))
    content = content_digest(entry.stream, rows)
    return EncodedAppend(entry.stream, entry.expect, entry.key, content, ACTOR, None, tuple(rows))


def appends(first_run: int = 0, prefix: str = "made") -> Iterator[Append]:
    """Endless appends, run by run."""
    number = first_run
    while True:
        yield from appends_of_run(number, prefix)
        number += 1


def batches(size: int, count: int, *, first_run: int = 0, prefix: str = "made") -> Iterator[tuple[Append, ...]]:
    """Yield `count` batches of exactly `size` events; an append that exceeds its batch is split."""
    source = appends(first_run, prefix)
    kept: list[Append] = []
    for _ in range(count):
        batch: list[Append] = []
        room = size
        while room:
            whole = kept.pop() if kept else next(source)
            taken, left = _split(whole, room)
            batch.append(taken)
            kept += left
            room -= len(taken.events)
        yield tuple(batch)


def _split(request: Append, room: int) -> tuple[Append, list[Append]]:
    """Split a request into its first `room` events and the rest."""
    if len(request.events) <= room:
        return request, []
    head = Append(request.stream, request.events[:room], request.actor, request.expect, request.key)
    tail = Append(request.stream, request.events[room:], request.actor, None, f"{request.key}+")
    return head, [tail]
