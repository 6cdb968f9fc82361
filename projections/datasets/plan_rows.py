"""Dataset rows of plan runs, from a query and a log prefix. Pure; the columns are TRL's prompt and completion.

`prompt_for_step` and `answer_of_step` define the prompt format. Policies are prompted by the same functions, so
training and inference prompts are identical.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass

import polars as pl
from pydantic import TypeAdapter, ValidationError

from eventlog.chain import canonical
from eventlog.errors import FlywheelError
from eventlog.events import (
    BenchmarkFrozen,
    RunFinished,
    SftQuery,
    Step,
    StepTaken,
    SweepPlanned,
    is_asked_for,
    unroll,
)
from eventlog.store import Position, Recorded

from ..benchmarks import Instance
from ..groups import GroupState
from ..rewards import RewardState
from ..runs import DEMONSTRATION, OUTSIDE, PLANLESS, RunState

SYSTEM = (
    "You operate a web site one step at a time. Answer with the next step alone, as one JSON object: type is navigate, "
    "click, fill_field, select_option or submit; label, value and url only where the step needs them."
)

NOTHING: Mapping[str, str] = {}

_STEPS = TypeAdapter(tuple[Step, ...])
_STAYS = frozenset({"fill_field", "select_option"})
_MISSED = frozenset({"no_such_link", "no_such_field", "no_such_option"})


class BrokenRun(FlywheelError):
    """The run {run} has no rows: found {actual}, expected {expected}. Inspect it with `flywheel runs show {run}`."""


@dataclass(frozen=True, slots=True)
class ConversationMessage:
    """One turn of a conversation; `role` is system, user or assistant."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class SftRow:
    """One step of a selected run. `reward` and `score` are in micro-units (`reward` None: unknown).

    `position` is that of the run's RunFinished event.
    """

    prompt: tuple[ConversationMessage, ...]
    completion: tuple[ConversationMessage, ...]
    run: str
    group: str
    template: str
    env_seed: int
    step: int
    reward: int | None
    score: int
    position: int


_MESSAGES = pl.List(pl.Struct({"role": pl.String, "content": pl.String}))

SCHEMA: Mapping[str, pl.DataType] = {
    "prompt": _MESSAGES,
    "completion": _MESSAGES,
    "run": pl.String(),
    "group": pl.String(),
    "template": pl.String(),
    "env_seed": pl.Int64(),
    "step": pl.Int64(),
    "reward": pl.Int64(),
    "score": pl.Int64(),
    "position": pl.Int64(),
}
"""The columns of the frame that `to_frame` returns."""


def oracle_tasks(events: Iterable[Recorded]) -> dict[str, frozenset[str]]:
    """Maps each template id to all oracle tasks it was planned or frozen with (SweepPlanned and BenchmarkFrozen)."""
    found: dict[str, frozenset[str]] = {}
    for recorded in events:
        if isinstance(recorded.event, SweepPlanned | BenchmarkFrozen):
            for template in recorded.event.templates:
                known = found.get(template.template_id, frozenset())
                found[template.template_id] = known | {template.oracle_task_id}
    return found


def judge_sft(
    query: SftQuery,
    runs: Mapping[str, RunState],
    rewards: Mapping[str, RewardState],
    benchmark_instances: Set[Instance],
    oracles: Mapping[str, Set[str]],
    groups: Mapping[str, GroupState],
    left_out: Mapping[str, str] = NOTHING,
) -> dict[str, str | None]:
    """Why each run that a query asks for is refused, or None if it is selected.

    Groups are judged independently of one another, so `runs` may be those of some whole groups. `left_out` maps runs
    excluded from learning to the reason.

    A run belongs to a benchmark if an evaluation played it, or if its instance is one of a benchmark's; for a template
    without a known oracle task, environment and seed decide.
    """
    reasons: dict[str, str | None] = {}
    for run in runs.values():
        if not is_asked_for(query, run.environment, run.sweep, run.group):
            continue
        if _is_benchmark(run, benchmark_instances, oracles.get(run.template)):
            reasons[run.run] = "benchmark"
        elif run.run in left_out:
            reasons[run.run] = left_out[run.run]
        else:
            reasons[run.run] = _unfit(query, run, rewards.get(run.run), groups.get(run.group))
    if query.best_of_group:
        taken = [runs[run] for run, reason in reasons.items() if reason is None]
        best = _best_of_groups(taken, rewards)
        reasons |= {run.run: "not_best_of_group" for run in taken if run.run not in best}
    return reasons


def _is_benchmark(run: RunState, instances: Set[Instance], tasks: Set[str] | None) -> bool:
    if run.evaluation is not None:
        return True
    if tasks is None:
        return (run.environment, run.env_seed) in {(environment, seed) for environment, _, seed in instances}
    return any((run.environment, task, run.env_seed) in instances for task in tasks)


def _unfit(query: SftQuery, run: RunState, reward: RewardState | None, group: GroupState | None) -> str | None:
    if not run.is_ended:
        return "not_ended"
    if query.outside == "none" and run.run.startswith(OUTSIDE):
        return "outside"
    if run.status == "missing":
        return "missing"
    if group is not None and run.run in group.contaminated_siblings:
        return "contaminated"
    if run.executor in PLANLESS or run.executor == DEMONSTRATION:  # no row of plan steps can be made of it
        return "no_plan"
    if reward is None:
        return "ungraded"
    return _below(query, reward)


def _below(query: SftQuery, reward: RewardState) -> str | None:
    if reward.score < query.min_score:
        return "below_score"
    if query.floor is None:
        return None
    earned: int | None = getattr(reward, query.floor.reward)
    if earned is None:
        return "reward_unknown"
    return "below_floor" if earned < query.floor.least else None


def _best_of_groups(runs: Iterable[RunState], rewards: Mapping[str, RewardState]) -> frozenset[str]:
    """The run of each group with the highest score, then the highest known value, then the first id."""

    def rank(run: RunState) -> tuple[int, bool, int, bytes]:
        reward = rewards[run.run]
        return -reward.score, reward.value is None, -(reward.value or 0), run.run.encode()

    best: dict[str, str] = {}
    for run in sorted(runs, key=rank):
        best.setdefault(run.group, run.run)
    return frozenset(best.values())


def prompt_for_step(instruction: str, page: str | None, taken: Sequence[str]) -> tuple[ConversationMessage, ...]:
    """The prompt for the next step: the task, the steps taken (formatted by `took`), the page (None: unknown)."""
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(taken, start=1)) or "(none)"
    shown = "(none)" if page is None else collapse_whitespace(page)
    return (
        ConversationMessage("system", SYSTEM),
        ConversationMessage(
            "user", f"Task: {collapse_whitespace(instruction)}\n\nSteps taken:\n{steps}\n\nPage:\n{shown}"
        ),
    )


def answer_of_step(step: Step) -> ConversationMessage:
    """The answer for a step: canonical JSON of type, label, value and url, without None values."""
    fields = step.model_dump(include={"type", "label", "value", "url"}, exclude_none=True)
    return ConversationMessage("assistant", canonical(fields).decode())


def took(step: Step, outcome: str) -> str:
    """One line for a step taken, with its outcome."""
    return f"{answer_of_step(step).content} -> {outcome}"


def collapse_whitespace(page: str) -> str:
    """The text with collapsed white space, without empty lines and NUL characters."""
    lines = (" ".join(line.split()) for line in page.replace("\0", " ").splitlines())
    return "\n".join(line for line in lines if line)


def sft_rows(
    run: RunState, reward: RewardState, events: Iterable[Recorded], text_of: Callable[[str], str]
) -> tuple[SftRow, ...]:
    """A row for each step of a run. `events` is its stream, `text_of` returns the text of a blob. Raises BrokenRun."""
    finished, steps = _ended_steps(run, events)
    plan = unroll(_plan(run, text_of), len(steps))
    page: str | None = None
    taken: list[str] = []
    rows = []
    for event in steps:
        if event.index >= len(plan):
            raise BrokenRun(run=run.run, actual=f"step {event.index}", expected=f"a plan of {len(plan)} steps")
        step = plan[event.index]
        rows.append(
            SftRow(
                prompt=prompt_for_step(run.instruction, page, taken),
                completion=(answer_of_step(step),),
                run=run.run,
                group=run.group,
                template=run.template,
                env_seed=run.env_seed,
                step=event.index,
                reward=reward.value,
                score=reward.score,
                position=finished,
            )
        )
        taken.append(took(step, event.outcome))
        page = _page_after(event, page, text_of)
    return tuple(rows)


def _plan(run: RunState, text_of: Callable[[str], str]) -> tuple[Step, ...]:
    try:
        return _STEPS.validate_json(text_of(run.plan))
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise BrokenRun(run=run.run, actual=f"a plan {run.plan} ({problem})", expected="a list of steps") from error


def _ended_steps(run: RunState, events: Iterable[Recorded]) -> tuple[Position, tuple[StepTaken, ...]]:
    known = tuple(events)
    finished = [item.position for item in known if isinstance(item.event, RunFinished)]
    if not finished:
        raise BrokenRun(run=run.run, actual=f"no RunFinished in the stream run/{run.run}", expected="one")
    return finished[-1], tuple(item.event for item in known if isinstance(item.event, StepTaken))


def _page_after(event: StepTaken, before: str | None, text_of: Callable[[str], str]) -> str | None:
    """The page after a step: the observed page, else the page before if the step stays on it, else None (unknown)."""
    if event.observation is not None:
        return text_of(event.observation)
    return before if event.action in _STAYS or event.outcome in _MISSED else None


def step_digest(row: SftRow) -> bytes:
    """SHA-256 of a row's canonical content."""
    return hashlib.sha256(canonical(asdict(row))).digest()


def to_frame(rows: Iterable[SftRow]) -> pl.DataFrame:
    """Rows as a frame with the columns of SCHEMA, also without rows."""
    return pl.DataFrame([asdict(row) for row in rows], schema=dict(SCHEMA), orient="row")
