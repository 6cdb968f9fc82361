"""Grade ended runs with a judge model and record its opinions. An oracle's grade always takes precedence."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Final, Literal

from agents.models.errors import BadEndpoint, ModelFailure, ModelRefused, ModelUnknown
from agents.models.judge import PROMPT_VERSION, JudgeOpinion, ShownRun, ShownStep, ask_judge
from agents.models.model import Image, Model
from eventlog.blobs import Blob
from eventlog.errors import BlobErased, BlobMissing
from eventlog.events import JudgeOpined, RunFinished, RunStarted, StepTaken
from eventlog.store import Append, KeyReused
from projections.engine.views import PostgresViews
from projections.judges import JUDGES, judge_name
from projections.runs import RUNS

from ..errors import RunUnreadable
from ..house import House
from ..queries.runs import require_run

ACTOR: Final = "judge"

Outcome = Literal["opined", "already", "not_ended", "missing", "personal", "failed"]
"""already: this judge has graded it before. personal: its pages belong to a person, so they are not shown to a model.
failed: there is no opinion, and `reason` says why."""


@dataclass(frozen=True, slots=True)
class JudgeResult:
    """Result of grading one run with a judge; `score` in millionths."""

    run: str
    outcome: Outcome
    passed: bool | None = None
    score: int | None = None
    reason: str = ""


def grade_runs(
    house: House,
    model: Model,
    runs: Sequence[str],
    *,
    max_parallel: int = 4,
    advance: Callable[[], None] = lambda: None,
) -> tuple[JudgeResult, ...]:
    """Grade runs with a judge, each once, and append each opinion as it arrives. Results are in the order given.

    A failure of one run does not affect the others. Raises ModelRefused, ModelUnknown or BadEndpoint if the model
    cannot be used at all, and Unknown for an unknown run before any call.
    """
    named = tuple(dict.fromkeys(runs))
    views = house.views()
    for run in named:
        require_run(views, run)
    pool = ThreadPoolExecutor(max_workers=max_parallel, thread_name_prefix="judge")
    found: dict[str, JudgeResult] = {}
    try:
        for future in as_completed([pool.submit(_grade, house, views, model, run) for run in named]):
            graded = future.result()
            found[graded.run] = graded
            advance()
    finally:
        pool.shutdown(cancel_futures=True)
    return tuple(found[run] for run in named)


def _grade(house: House, views: PostgresViews, model: Model, run: str) -> JudgeResult:
    state, judge = views.get(RUNS, run), judge_name(model.name, PROMPT_VERSION)
    if state is None or not state.is_ended:
        return JudgeResult(run, "not_ended", reason="it has not ended yet")
    if state.status == "missing":
        return JudgeResult(run, "missing", reason=f"it was not played: {state.missing_reason}")
    spoken = views.get(JUDGES, run)
    said = next((opinion for opinion in spoken.opinions if opinion.judge == judge), None) if spoken else None
    if said is not None:
        return JudgeResult(run, "already", said.passed, said.score)
    try:
        shown = shown_run(house, views, run)
        if shown is None:
            return JudgeResult(run, "personal", reason="its pages belong to a person")
        opinion = ask_judge(model, shown)
    except (ModelRefused, ModelUnknown, BadEndpoint):
        raise
    except (ModelFailure, BlobMissing, BlobErased, RunUnreadable) as failure:
        return JudgeResult(run, "failed", reason=str(failure))
    return _record(house, model, run, state.group, opinion)


def shown_run(house: House, views: PostgresViews, run: str) -> ShownRun | None:
    """A run as shown to a judge; None if its pages belong to a person. Raises BlobMissing, RunUnreadable."""
    events = [recorded.event for recorded in house.store.read(stream=f"run/{run}", upto=views.upto)]
    start = next((event for event in events if isinstance(event, RunStarted)), None)
    end = next((event for event in events if isinstance(event, RunFinished)), None)
    if start is None or end is None:
        raise RunUnreadable(actual=run)
    if start.subject is not None:
        return None
    steps = tuple(_step(house, event) for event in events if isinstance(event, StepTaken))
    return ShownRun(start.task_spec.instruction, end.status, steps)


def _step(house: House, event: StepTaken) -> ShownStep:
    page: str | Image | None = None
    if event.observation is not None:
        blob = house.blobs.get(event.observation)
        is_picture = blob.media_type.startswith("image/")
        page = Image(blob.media_type, blob.body) if is_picture else blob.body.decode(errors="replace")
    return ShownStep(event.index, event.action, event.intent, event.outcome, event.http_status, page)


def _record(house: House, model: Model, run: str, group: str, opinion: JudgeOpinion) -> JudgeResult:
    completion = opinion.completion
    said = {"reason": opinion.reason, "answer": completion.samples[0].text, "served": completion.model}
    blob = Blob("application/json", json.dumps(said, sort_keys=True).encode())
    house.blobs.put([blob])
    event = JudgeOpined(
        run=run,
        group=group,
        model=model.name,
        prompt=PROMPT_VERSION,
        passed=opinion.passed,
        score=opinion.score,
        confidence=opinion.confidence,
        opinion=blob.digest,
        input_tokens=completion.input_tokens,
        output_tokens=completion.output_tokens,
    )
    key = f"judge:{judge_name(model.name, PROMPT_VERSION)}:{run}"
    (outcome,) = house.store.append([Append(f"run/{run}", (event,), ACTOR, key=key)])
    if isinstance(outcome, KeyReused):
        return JudgeResult(run, "already", reason="another process has recorded its opinion in the meantime")
    return JudgeResult(run, "opined", opinion.passed, opinion.score, opinion.reason)
