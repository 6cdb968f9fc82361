"""The controller of delegation loops: it starts one, resumes one, and passes an answer on. The loop itself is pure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from agents.executors.delegation.errors import LoopEnded, LoopPlayedOtherwise, NoSuchLoop, NothingAsked
from agents.executors.delegation.executor import JournalOf, run_of_loop
from agents.executors.delegation.fanout import SubmanagerTree
from agents.executors.delegation.journal import LoopJournal
from agents.executors.delegation.loop import DelegationLoop, LoopMeans, Progress, no_progress
from agents.executors.delegation.opening import Opening, open_loop
from agents.executors.delegation.truth import GroundTruth
from agents.rollouts.record import stopwatch
from eventlog.events import EscalationAnswered, LoopConfig, OfferedSkill, OfferedTool
from eventlog.store import fresh_key
from projections.delegation.loop_state import LoopState
from projections.delegation.loops import LOOPS
from projections.delegation.skills import SKILLS
from projections.delegation.tools import TOOLS
from projections.engine.paging import page_states
from projections.engine.views import Views
from projections.runs import RUNS, RunState

from ..house import House
from ..locks import only_controller
from ..queries.skill_pieces import skills_out_of_use

ACTOR: Final = "operator"


@dataclass(frozen=True)
class LoopRequest:
    """Request of an operator. `reuse` False offers no skills and tools of earlier loops.

    `refines` is the ended loop whose result is to be improved, `name` the loop's name (None: a fresh one).
    """

    task: str
    config: LoopConfig = field(default_factory=LoopConfig)
    seed: int = 0
    reuse: bool = True
    refines: str | None = None
    name: str | None = None


def start_loop(house: House, request: LoopRequest, means: LoopMeans, progress: Progress = no_progress) -> LoopState:
    """Open a loop and run it until it ends or asks. Raises BadLoopTask, ModelFailure (the loop then stays open)."""
    loop = request.name or f"loop-{fresh_key()[:10]}"
    with journal_alone(house, loop) as journal:
        views = house.views()
        opening = Opening(
            task=request.task,
            manager=means.manager.name[:200],
            worker=means.worker.name[:200],
            config=request.config,
            seed=request.seed,
            sandbox=means.sandbox.kind,
            graded=means.truth.is_graded,
            grader=means.truth.grader,
            validator=means.truth.validator,
            refines=request.refines,
            skills=offered_skills(views, request.config) if request.reuse else (),
            tools=offered_tools(views, request.config) if request.reuse else (),
        )
        open_loop(journal, opening)
        return DelegationLoop(journal, means, progress).run()


def resume_loop(house: House, loop: str, means: LoopMeans, progress: Progress = no_progress) -> LoopState:
    """Go on with an open loop. Raises NoSuchLoop, LoopEnded, LoopPlayedOtherwise, ControllerBusy, ModelFailure."""
    with journal_alone(house, loop) as journal:
        refuse_ended(journal)
        refuse_other_means(journal, means)
        if journal.state.status == "waiting":
            return journal.state
        return DelegationLoop(journal, means, progress, SubmanagerTree(total=count_submanagers(journal))).run()


def answer_loop(house: House, loop: str, answer: str) -> LoopState:
    """Record the answer to a loop that waits for one. Raises NoSuchLoop, LoopEnded, NothingAsked."""
    with journal_alone(house, loop) as journal:
        refuse_ended(journal)
        if journal.state.status != "waiting":
            raise NothingAsked(loop=loop, actual=f"it is {journal.state.status}")
        journal.append(EscalationAnswered(loop=loop, answer=answer.strip()))
        return journal.state


def journals_of(house: House) -> JournalOf:
    """Journals of loops in a house, for the runs of a suite that are delegated. Thread-safe."""
    return lambda loop: LoopJournal(house.store, house.blobs, loop, stopwatch)


@contextmanager
def journal_alone(house: House, loop: str) -> Iterator[LoopJournal]:
    """The journal of a loop, which no other process writes to meanwhile. Raises ControllerBusy."""
    with only_controller(house, f"the delegation loop {loop}") as own:
        yield LoopJournal(own.store, own.blobs, loop, stopwatch)


def refuse_ended(journal: LoopJournal) -> None:
    """Raise NoSuchLoop or LoopEnded unless a loop is open."""
    if not journal.state.status:
        raise NoSuchLoop(actual=journal.loop)
    if not journal.state.is_open:
        raise LoopEnded(loop=journal.loop, actual=journal.state.status)


def refuse_other_means(journal: LoopJournal, means: LoopMeans) -> None:
    """Raise LoopPlayedOtherwise unless a loop gets what it was opened with.

    That is its manager, worker, sandbox, grader and validator.
    """
    state = journal.state
    recorded = f"the manager {state.manager!r}", f"the worker {state.worker!r}", f"the sandbox {state.sandbox!r}"
    brought = (
        f"the manager {means.manager.name[:200]!r}",
        f"the worker {means.worker.name[:200]!r}",
        f"the sandbox {means.sandbox.kind!r}",
    )
    for expected, actual in zip(recorded, brought, strict=True):
        if actual != expected:
            raise LoopPlayedOtherwise(loop=state.loop, expected=expected, actual=actual)
    refuse_other_truth(state, means.truth)


def refuse_other_truth(state: LoopState, truth: GroundTruth) -> None:
    """Raise LoopPlayedOtherwise unless a loop is judged by the grader and the validator that it was opened with.

    What is no command is compared by whether it is there. Of a loop that recorded no commands only the grader is.
    """
    named = truth.grader if state.grader or not state.graded else None
    validated = truth.verify is not None and truth.validator is not None
    pairs = [
        (
            _describe_truth("grader", state.grader, is_there=state.graded),
            _describe_truth("grader", named, is_there=truth.is_graded),
        )
    ]
    if state.commands_known:
        expected = _describe_truth("validator", state.validator, is_there=state.validator is not None)
        pairs.append((expected, _describe_truth("validator", truth.validator, is_there=validated)))
    for expected, actual in pairs:
        if actual != expected:
            raise LoopPlayedOtherwise(loop=state.loop, expected=expected, actual=actual)


def _describe_truth(role: str, command: str | None, *, is_there: bool) -> str:
    if not is_there:
        return f"no {role}"
    return f"a {role}" if command is None else f"the {role} {command!r}"


def count_submanagers(journal: LoopJournal) -> int:
    """How many sub-managers were ever opened below a loop."""
    children = [LoopJournal(journal.store, journal.blobs, name, journal.stopwatch) for name in journal.state.children]
    return len(children) + sum(count_submanagers(each) for each in children)


def offered_skills(views: Views, config: LoopConfig) -> tuple[OfferedSkill, ...]:
    """The skills of ended loops and those that were imported, by name, as many as a catalogue holds.

    A skill that memory gave up, because runs did better without it or after a rollback, is not offered.
    """
    found: list[OfferedSkill] = []
    given_up = skills_out_of_use(views)
    for page in page_states(views, SKILLS):
        closed = _ended_loops(views, {each.loop for each in page.values() if each.loop is not None})
        found += [
            OfferedSkill(skill=name, line=each.line, content=each.content)
            for name, each in page.items()
            if name not in given_up and (each.loop is None or each.loop in closed)
        ]
        if len(found) >= config.skills.max_total:
            break
    return tuple(found[: config.skills.max_total])


def offered_tools(views: Views, config: LoopConfig) -> tuple[OfferedTool, ...]:
    """The tools of ended loops in the namespaces of a configuration, by name, as many as a registry holds."""
    found: list[OfferedTool] = []
    for page in page_states(views, TOOLS):
        closed = _ended_loops(views, {each.loop for each in page.values()})
        found += [
            OfferedTool(tool=name, code_hash=each.code_hash, content=each.content)
            for name, each in page.items()
            if each.loop in closed and name.partition(".")[0] in config.tools.namespaces
        ]
        if len(found) >= config.tools.max_total:
            break
    return tuple(found[: config.tools.max_total])


def _ended_loops(views: Views, loops: set[str]) -> set[str]:
    """The loops among these that have ended and may teach: not those of runs that judge, nor of withdrawn runs."""
    ended = {name for name, each in views.pick(LOOPS, loops).items() if not each.is_open}
    runs = {name: run_of_loop(name) for name in ended}
    played = views.pick(RUNS, {run for run in runs.values() if run is not None})
    return {name for name, run in runs.items() if run is None or _may_teach(played.get(run))}


def _may_teach(run: RunState | None) -> bool:
    return run is not None and run.evaluation is None
