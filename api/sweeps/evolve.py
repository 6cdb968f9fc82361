"""Ask the recovery model for successors of the instruction of the cluster that failed most in an ended sweep."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from agents.executors.executor import Called
from agents.executors.policy import wording_budget
from agents.learning.capture import Captured
from agents.learning.contrast import Transcript
from agents.learning.evolution import (
    NONE,
    Comparison,
    Scorecard,
    draw_leader,
    draw_parent,
    evolution_request,
    read_instruction,
    scorecards,
)
from agents.learning.guidance import LONGEST_GUIDANCE, guidance_budget, instruction_in_force
from agents.learning.memory import content_reader, load_piece
from agents.learning.occasions import OccasionPiece
from agents.learning.reflection import MOST_KNOWN, MOST_OF_A_SORT
from agents.models.errors import AnswerUnstructured, ModelFailure
from agents.rollouts.transcripts import read_moves
from eventlog.disowned import read_in_force
from eventlog.errors import BlobErased
from eventlog.events import PairedRule, PieceTried, SweepPlanned
from eventlog.store import EventStore
from projections.engine.views import Views
from projections.memories import LOOSE
from projections.pieces import PieceState
from projections.rewards import REWARDS, RewardState
from projections.runs import POLICIES, RUNS, RunState
from projections.taint import left_out

from ..course import Course
from ..house import House
from ..settings import Settings
from .advisor import Advisor, advisor_of
from .lessons import plain_rewards, with_last_seen
from .reflect import MOST_RUNS, Question, failing_tasks, record_answer, was_asked

MOST_PROPOSED: Final = 3
"""Most successors asked for after a sweep. All but the last are made from a leader, the last from the front."""

MOST_ON_TRIAL: Final = 12
"""Most instructions of a cluster that have had trials and are still on trial."""

MOST_OVER: Final = MOST_KNOWN
"""Most instructions of a cluster that are tried no further and may have a successor, the newest ones: as many as a
request names. Their number grows with the log, and older ones were compared with what is long replaced."""

_POOL: Final = ("promoted", "retired", "candidate")
"""Statuses of the instructions that a successor may be made from. What did harm is left out."""

_HARMFUL: Final = ("demoted", "quarantined")

_PROMPTED: Final = POLICIES | {"delegation"}
"""Executors whose prompts are of the wording that the settings name."""


@dataclass(frozen=True, slots=True)
class InstructionPool:
    """The instructions of a cluster that may have a successor, by id, and the id of the one in force (NONE: none).

    `known` are these and those that did harm, as far as they are told, `ids` those of every one of the cluster, and
    `tried` the trials of the first.
    """

    texts: Mapping[str, str]
    known: Mapping[str, str]
    ids: Collection[str]
    present: str
    tried: Sequence[PieceTried]
    runs: Mapping[str, RunState]
    rewards: Mapping[str, RewardState]

    def instruction_of(self, run: str) -> str:
        """The instruction that a run was given; NONE if none."""
        return next((piece for piece in self.runs[run].applied if piece in self.ids), NONE)

    def told_runs(self, piece: str) -> list[str]:
        """Graded runs that were given an instruction, the newest first."""
        own = (run for run in self.runs if run in self.rewards and self.instruction_of(run) == piece)
        return sorted(own, key=lambda run: (_first_graded(self.rewards[run]), run), reverse=True)

    def with_known(self, piece: str, text: str) -> InstructionPool:
        """This pool after an answer: a further instruction that was tried. Without a trial it is nobody's parent."""
        return replace(self, known={**self.known, piece: text})

    def cards(self) -> tuple[Scorecard, ...]:
        """What runs with each instruction earned in the instances of their trials."""
        return scorecards(self.texts, self._comparisons(), self.present)

    def _comparisons(self) -> Iterator[Comparison]:
        for event in self.tried:
            scores: dict[str, list[int]] = {}
            for run in (event.run, *event.control_runs):
                if run in self.runs and run in self.rewards:
                    scores.setdefault(self.instruction_of(run), []).append(_value(self.rewards[run]))
            if event.run in self.runs:
                state = self.runs[event.run]
                means = {piece: sum(found) // len(found) for piece, found in scores.items()}
                yield Comparison(f"{state.template} {state.env_seed}", means, "" if event.withheld else event.piece)


def evolve_instruction(
    house: House, sweep: SweepPlanned, course: Course, tell: Callable[[str], None], *, brings_back: bool = True
) -> None:
    """Ask about one cluster, and append each call together with the candidate that it brought, if any.

    Nothing is asked without a recovery model, about a cluster with enough instructions on trial, about a run that was
    asked about, or where no run with the instruction that is to be improved failed. A model that does not answer is
    reported. Raises BlobMissing, BlobDamaged, and what advisor_of raises.
    """
    if house.settings.recovery_model is None or "instruction" not in course.kinds:
        return
    views = house.views()
    graded = plain_rewards(views, sweep)
    asked = _questions(house, views, sweep, graded)
    if isinstance(course.rule, PairedRule):
        course = replace(course, rule=course.rule.with_early_stop())
    with advisor_of(house.settings, tell, timeout_s=course.timeout_s, is_asked=bool(asked)) as model:
        if model is not None and asked:
            most = longest_instruction(house.settings, sweep)
            pool = instruction_pool(house, house.views(), sweep, asked[0][1], graded, most)  # all are about one cluster
            for number, question in asked:
                found = _ask(house, sweep, course, question, pool, model, number, brings_back=brings_back)
                pool = pool if found is None else pool.with_known(found.name, found.text)


def _questions(
    house: House, views: Views, sweep: SweepPlanned, graded: Mapping[str, RewardState]
) -> list[tuple[int, Question]]:
    """Numbered questions about the first failing cluster that has room, each about a run that was not asked about.

    Only instructions with a trial, in the place of the one in force, take room: one that the player cannot be told,
    because it is longer than its settings allow, would else take it forever, and so would one that is tried no
    further. So cluster and numbers are the same after a learner was killed.
    """
    every, most = views.find(LOOSE["instruction"]), longest_instruction(house.settings, sweep)
    present: dict[str, str] = {}
    for task in failing_tasks(sweep, graded):
        cluster = task.template.cluster
        held = _of_cluster(every, sweep.environment, cluster)
        if cluster not in present:
            present[cluster] = _present(_read(house, _with(held, "promoted")), most)
        tried = [each for each in _with(held, "candidate") if each.treated.k and each.title == present[cluster]]
        taken = sum(each.occasion.get("cluster") == cluster for each in tried)
        room = min(MOST_PROPOSED, MOST_ON_TRIAL - taken)
        if room > 0:
            runs = enumerate(tuple(reversed(task.runs))[:room])
            return [(number, Question(task.template, run)) for number, run in runs if not was_asked(house.store, run)]
    return []


def _ask(
    house: House,
    sweep: SweepPlanned,
    course: Course,
    question: Question,
    pool: InstructionPool,
    model: Advisor,
    number: int,
    *,
    brings_back: bool,
) -> Captured | None:
    """The instruction that the answer brought, if any."""
    most, template = longest_instruction(house.settings, sweep), question.template
    draw, seed = draw_leader if number < MOST_PROPOSED - 1 else draw_parent, f"{sweep.rng_seed}/{sweep.sweep}"
    parent = draw(pool.cards(), pool.present, f"{seed}/{template.cluster}/{number}")
    told = _transcripts(house, pool, parent.piece)
    if all(each.passed for each in told):
        return None  # no run with it failed yet, so there is nothing to put right
    request = evolution_request(model, template, parent, told, pool.known.values(), number)
    try:
        completion = model.complete(request)
    except ModelFailure:
        return None  # the advisor has reported it
    found, run = None, (question.run,)
    try:
        found = read_instruction(model, completion, sweep.environment, template, parent, pool.present, run, most)
    except AnswerUnstructured as problem:
        model.report(problem)
    called = Called("recovery", None, request, completion)
    record_answer(house, house.views(), sweep, course, question, called, found, brings_back=brings_back)
    return found


def instruction_pool(
    house: House,
    views: Views,
    sweep: SweepPlanned,
    question: Question,
    graded: Mapping[str, RewardState],
    most: int = LONGEST_GUIDANCE,
) -> InstructionPool:
    """The instructions of a question's cluster with their trials, without withdrawn runs, and the sweep's own runs.

    Of those that are neither in force nor on trial in its place but were tried, MOST_OVER are in it, and of those that
    did harm as many are known. Of the others the content of promoted ones is read, to find the one in force.
    """
    held = _of_cluster(views.find(LOOSE["instruction"]), sweep.environment, question.template.cluster)
    read = _read(house, _with(held, "promoted"))
    present = _present(read, most)
    on_trial = [each for each in _with(held, "candidate") if each.title == present]
    going = {present, *(each.piece for each in on_trial)}
    over = (each for each in _with(held, *_POOL) if each.piece not in going)
    parents = [*on_trial, *_newest(each for each in over if each.treated.k or each.status != "candidate")]
    parents += [each for each in held if each.piece == present]
    harmful = _newest(_with(held, *_HARMFUL))
    read |= _read(house, (each for each in (*parents, *harmful) if each.piece not in read))
    found = (parents, harmful)
    texts, known = ({each.piece: read[each.piece].text for each in part if each.piece in read} for part in found)
    tried = tuple(event for piece in sorted(texts) for event in _trials_of(house.store, piece))
    own = {spec.spec_id for spec in sweep.specs if spec.template == question.template.template_id} & graded.keys()
    wanted = {*own, *(run for event in tried for run in (event.run, *event.control_runs))} - left_out(views).keys()
    runs, rewards = views.pick(RUNS, wanted), views.pick(REWARDS, wanted)
    ids = {each.piece for each in held}
    return InstructionPool(texts, texts | known, ids, present, tried, runs, rewards)


def longest_instruction(settings: Settings, sweep: SweepPlanned) -> int:
    """Most bytes of an instruction that the executor of a sweep can be given."""
    if sweep.executor not in _PROMPTED:
        return LONGEST_GUIDANCE
    return guidance_budget(wording_budget(settings.policy_wording))


def _of_cluster(states: Mapping[str, PieceState], environment: str, cluster: str) -> list[PieceState]:
    """Instructions that tasks of a cluster may be told."""
    own = (each for each in states.values() if each.occasion.get("environment") == environment)
    return [each for each in own if each.occasion.get("cluster") in {None, cluster}]


def _with(held: Iterable[PieceState], *statuses: str) -> list[PieceState]:
    return [each for each in held if each.status in statuses]


def _newest(held: Iterable[PieceState]) -> list[PieceState]:
    """MOST_OVER of these at most: those that were proposed or tried last."""
    return sorted(held, key=lambda each: (each.last_at, each.piece), reverse=True)[:MOST_OVER]


def _read(house: House, held: Iterable[PieceState]) -> dict[str, OccasionPiece]:
    """Instructions with their content, by id. Erased ones are left out."""
    pieces = (load_piece(state, content_reader(house.blobs)) for state in held)
    return {piece.piece: piece for piece in pieces if isinstance(piece, OccasionPiece)}


def _present(promoted: Mapping[str, OccasionPiece], most: int) -> str:
    """The id of a cluster's instruction in force; NONE if there is none."""
    return next((each.piece for each in instruction_in_force(promoted.values(), most)), NONE)


def _trials_of(store: EventStore, piece: str) -> Iterator[PieceTried]:
    for recorded in read_in_force(store, stream=f"instruction/{piece}", types=["PieceTried"]):
        if isinstance(recorded.event, PieceTried):
            yield recorded.event


def _transcripts(house: House, pool: InstructionPool, piece: str) -> tuple[Transcript, ...]:
    """Transcripts of the newest runs that were given an instruction, as many failed and passed ones as are told."""
    own = pool.told_runs(piece)
    sorts = ([run for run in own if pool.rewards[run].passed is wanted] for wanted in (False, True))
    return tuple(each for runs in sorts for each in islice(_read_transcripts(house, pool, runs), MOST_OF_A_SORT))


def _read_transcripts(house: House, pool: InstructionPool, runs: Sequence[str]) -> Iterator[Transcript]:
    """Transcripts of the first MOST_RUNS / 2 of these runs, without those that were erased."""
    found = (_read_transcript(house, pool.runs[run], pool.rewards[run]) for run in runs[: MOST_RUNS // 2])
    return (each for each in found if each is not None)


def _read_transcript(house: House, run: RunState, reward: RewardState) -> Transcript | None:
    try:
        moves = read_moves(house.store, house.blobs, run.run)
        found = Transcript(run.run, run.template, run.group, reward.passed, _value(reward), moves)
        return with_last_seen(house, found)
    except BlobErased:
        return None


def _first_graded(reward: RewardState) -> int:
    """The position of a run's first grade, as far as it is known: grading again makes no run newer."""
    return min([reward.since, *(each.since for each in reward.others)])


def _value(reward: RewardState) -> int:
    return reward.score if reward.value is None else reward.value
