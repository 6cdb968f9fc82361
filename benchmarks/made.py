"""Events like those of real runs, made from a number: the same number gives the same events, in the same appends."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from eventlog.events import (
    Anchor,
    AnyEvent,
    Artifact,
    FollowLink,
    InstanceReset,
    Memory,
    PromotionRule,
    RewardGraded,
    RewardTerms,
    RewriteLost,
    RewriteProposed,
    RewriteWon,
    RunFinished,
    RunStarted,
    Spec,
    StepTaken,
    TaskSpec,
    Usage,
)
from eventlog.store import Append

ACTOR = "runner"
STEPS = 10
SIBLINGS = 4
RUNS_A_SWEEP = 400
EVENTS_A_RUN = STEPS + 4

_CREDIT_EVERY = 10
_PROPOSAL_EVERY = 200
_TASKS = ("lead_filtered_search", "contact_seller", "saved_search", "compare_boats", "price_alert")


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_ARTIFACT = Artifact(
    weights="base", memory=Memory(upto=395, folds={"rewrites": 1}, without=(), digest=_sha("memory at 395"))
)
_PLANS = {task: _sha(f"plan of {task}") for task in _TASKS}
_PAGES = [_sha(f"page {number}") for number in range(500)]
_INSTRUCTION = (
    "On the boat marketplace, open the boats page at /boats. Show only Bayliner boats from private owners with a"
    " maximum price of 40000, sorted by price from low to high. Open the cheapest one and request details as"
    " Alex Morgan, alex.morgan@example.com, with the message 'Is it still available?'."
)


def appends_of_run(number: int, prefix: str = "made") -> tuple[Append, ...]:
    """The appends of one run: its start, the rest of it, and now and then one about a rewrite."""
    sweep = f"{prefix}-{number // RUNS_A_SWEEP}"
    task = _TASKS[number // SIBLINGS % len(_TASKS)]
    group = f"{sweep}__marketplace.{task}__seed{number // SIBLINGS}"
    run = f"{group}__s{number % SIBLINGS}"
    stream, passed = f"run/{run}", number % 3 > 0
    return (
        Append(stream, (_start(number, run, group, sweep, task),), ACTOR, expect=0, key=f"start:{run}"),
        Append(stream, tuple(_rest(number, run, group, passed=passed)), ACTOR, key=f"finish:{run}"),
        *_about_rewrites(number, run, prefix, passed=passed),
    )


def _start(number: int, run: str, group: str, sweep: str, task: str) -> AnyEvent:
    template = f"marketplace.{task}"
    return RunStarted(
        run=run,
        spec=Spec(
            spec_id=run,
            template=template,
            env_seed=number // SIBLINGS,
            group_id=group,
            sibling_index=number % SIBLINGS,
            sweep=sweep,
        ),
        task_spec=TaskSpec(
            task_spec_id=f"{template}.{_PLANS[task][:8]}",
            instruction=_INSTRUCTION,
            task_class="navigation",
            environment="marketplace",
            max_steps=40,
            success_conditions=(f"oracle:{template}",),
        ),
        artifact=_ARTIFACT,
        executor="plan",
        plan=_PLANS[task],
        applied=(),
        arm=None,
    )


def _rest(number: int, run: str, group: str, *, passed: bool) -> Iterator[AnyEvent]:
    yield InstanceReset(run=run, group=group, seed=number // SIBLINGS, fingerprint=_sha(group))
    for index in range(STEPS):
        failed = not passed and index == STEPS - 1
        yield StepTaken(
            run=run,
            index=index,
            action="navigate" if index == 0 else "click",
            intent=f"open page {index}, to come nearer to the cheapest boat of a private owner",
            outcome="not_found" if failed else "ok",
            http_status=404 if failed else 200,
            observation=_PAGES[(number * STEPS + index) % len(_PAGES)],
        )
    yield RunFinished(
        run=run,
        status="completed",
        fingerprint=_sha(f"end of {run}"),
        end_state=_sha(f"mutations of {run}"),
        mutations=1,
        usage=Usage(actions=STEPS, wall_microseconds=9_000 + number % 1000, input_tokens=0, output_tokens=0),
    )
    score = 1_000_000 if passed else 0
    yield RewardGraded(
        run=run,
        group=group,
        channel="oracle",
        version="oracle-1",
        score=score,
        passed=passed,
        reasons=() if passed else ("the right lead_submitted is missing",),
        terms=RewardTerms(score=score, lambda_per_dollar=100_000, penalty=20),
        prices=1,
        cost=200,
        value=score - 20,
    )


def _about_rewrites(number: int, run: str, prefix: str, *, passed: bool) -> Iterator[Append]:
    rewrite = f"rw-{prefix}-{number // _PROPOSAL_EVERY}"
    if number % _PROPOSAL_EVERY == 0:
        event: AnyEvent = RewriteProposed(
            rewrite=rewrite,
            anchor=Anchor(type="navigate", intent="open the boats page", content=_sha(rewrite)),
            change=FollowLink(page="/", label="Boats for sale"),
            rule=PromotionRule(),
            run=run,
            source="page_links",
            confidence=750_000,
        )
    elif number % _CREDIT_EVERY == 0:
        kind = RewriteWon if passed else RewriteLost
        event = kind(rewrite=rewrite, run=run, control_runs=(), control_successes=0)
    else:
        return
    yield Append(f"rewrite/{rewrite}", (event,), ACTOR, key=f"{event.type}:{run}")


def appends(first_run: int = 0, prefix: str = "made") -> Iterator[Append]:
    """The appends of run after run, without end."""
    number = first_run
    while True:
        yield from appends_of_run(number, prefix)
        number += 1


def batches(size: int, count: int, *, first_run: int = 0, prefix: str = "made") -> Iterator[tuple[Append, ...]]:
    """`count` batches of exactly `size` events each; an append that is too long for the rest of a batch is split."""
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
    """The first part of a request that fits, and what is left of it."""
    if len(request.events) <= room:
        return request, []
    head = Append(request.stream, request.events[:room], request.actor, request.expect, request.key)
    tail = Append(request.stream, request.events[room:], request.actor, None, f"{request.key}+")
    return head, [tail]
