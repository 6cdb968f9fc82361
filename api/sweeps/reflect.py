"""Ask the recovery model for a lesson about each cluster of an ended sweep in which a model's runs failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final

from agents.executors.executor import Called
from agents.learning.capture import Captured
from agents.learning.contrast import Transcript
from agents.learning.memory import content_reader, load_piece
from agents.learning.occasions import WHOLE_TEXTS, OccasionPiece
from agents.learning.reflection import MOST_OF_A_SORT, read_lesson, reflection_request
from agents.models.errors import AnswerUnstructured, ModelFailure
from agents.rollouts.facts import call_facts
from eventlog.events import ModelCalled, PieceKind, SweepPlanned, Template
from eventlog.store import Append, EventStore
from projections.engine.views import Views
from projections.memories import LOOSE
from projections.rewards import RewardState

from ..course import CONTROLLER, Course
from ..house import House
from .advisor import Advisor, advisor_of
from .capture import fresh_appends
from .lessons import plain_rewards, read_transcript, with_last_seen

MOST_CLUSTERS: Final = 4
"""Most clusters of a sweep about which the model is asked, those with most failures first."""

MOST_LESSONS_ON_TRIAL: Final = 4
"""Most lessons by reflection that are on trial in a cluster at once. Siblings try them abreast, so that one that does
nothing keeps no other waiting; each takes trials from the others, and each question costs a call."""

MOST_RUNS: Final = 8
"""Most runs of a task that are read for a request."""


@dataclass(frozen=True, slots=True)
class Question:
    """A cluster's task with most failures, and its first failed run, in whose stream the call is recorded."""

    template: Template
    run: str


def reflect_on(
    house: House, sweep: SweepPlanned, course: Course, tell: Callable[[str], None], *, brings_back: bool = True
) -> None:
    """Ask once for each failing cluster, and append each call together with the lesson that it brought, if any.

    Nothing is asked without a recovery model, about a cluster with MOST_LESSONS_ON_TRIAL such lessons on trial, or
    twice about a run. A model that does not answer is reported. Raises BlobMissing, BlobDamaged, and what advisor_of
    raises.
    """
    if house.settings.recovery_model is None or "recipe" not in course.kinds:
        return
    views = house.views()
    graded = plain_rewards(views, sweep)
    asked = questions_of(house, views, sweep, graded)
    with advisor_of(house.settings, tell, timeout_s=course.timeout_s, is_asked=bool(asked)) as model:
        if model is None:
            return
        for question in asked:
            _ask(house, views, sweep, course, question, graded, model, brings_back=brings_back)


@dataclass(frozen=True, slots=True)
class FailingTask:
    """The task of a cluster with most failures in a sweep, and its failed runs in the sweep's order."""

    template: Template
    runs: tuple[str, ...]


def failing_tasks(sweep: SweepPlanned, graded: Mapping[str, RewardState]) -> tuple[FailingTask, ...]:
    """One for each cluster of a sweep in which graded runs failed, those with most failures first."""
    failed = [spec for spec in sweep.specs if spec.spec_id in graded and not graded[spec.spec_id].passed]
    by_id = {template.template_id: template for template in sweep.templates}
    counts = Counter(by_id[spec.template].cluster for spec in failed)
    found: list[FailingTask] = []
    for cluster in sorted(counts, key=lambda cluster: (-counts[cluster], cluster)):
        own = Counter(spec.template for spec in failed if by_id[spec.template].cluster == cluster)
        name = min(own, key=lambda each: (-own[each], each))
        found.append(FailingTask(by_id[name], tuple(spec.spec_id for spec in failed if spec.template == name)))
    return tuple(found)


def questions_of(
    house: House, views: Views, sweep: SweepPlanned, graded: Mapping[str, RewardState]
) -> tuple[Question, ...]:
    """Questions about a sweep: at most one for each failing cluster, and none where MOST_LESSONS_ON_TRIAL are on trial.

    The clusters are the same after lessons of the sweep itself were proposed, so a learner that was killed meanwhile
    asks about no other. A run is asked about once.
    """
    on_trial, failing = _on_trial(house, views, sweep), failing_tasks(sweep, graded)
    free = [each for each in failing if on_trial[each.template.cluster] < MOST_LESSONS_ON_TRIAL][:MOST_CLUSTERS]
    return tuple(Question(each.template, each.runs[0]) for each in free if not was_asked(house.store, each.runs[0]))


def _ask(
    house: House,
    views: Views,
    sweep: SweepPlanned,
    course: Course,
    question: Question,
    graded: Mapping[str, RewardState],
    model: Advisor,
    *,
    brings_back: bool,
) -> None:
    told = _transcripts(house, sweep, question.template, graded)
    known = _lesson_texts(house, views, sweep.environment, question.template.cluster)
    request = reflection_request(model, question.template, told, known)
    try:
        completion = model.complete(request)
    except ModelFailure:
        return  # the advisor has reported it
    lesson = None
    try:
        lesson = read_lesson(model, completion, sweep.environment, question.template, (question.run,))
    except AnswerUnstructured as problem:
        model.report(problem)
    called = Called("recovery", None, request, completion)
    record_answer(house, views, sweep, course, question, called, lesson, brings_back=brings_back)


def record_answer(
    house: House,
    views: Views,
    sweep: SweepPlanned,
    course: Course,
    question: Question,
    called: Called,
    lesson: Captured | None,
    *,
    brings_back: bool,
) -> None:
    """Append a call in the stream of the run that it is about, together with the candidate that it brought, if any."""
    number = sum(1 for _ in house.store.read(stream=f"run/{question.run}", types=["ModelCalled"]))
    facts = call_facts(question.run, number, called)
    captured = () if lesson is None else (lesson,)
    appends = fresh_appends(house, views, sweep, captured, course.rule, course.kinds, brings_back=brings_back)
    house.blobs.put(facts.blobs)
    call = Append(f"run/{question.run}", facts.events, CONTROLLER, key=f"reflect:{question.run}")
    house.store.append_together([call, *appends])


def _transcripts(
    house: House, sweep: SweepPlanned, template: Template, graded: Mapping[str, RewardState]
) -> tuple[Transcript, ...]:
    """Transcripts of a task's runs: as many failed and passed ones as are told, without those that were erased."""
    own = [spec for spec in sweep.specs if spec.template == template.template_id and spec.spec_id in graded]
    failed, passed = ([spec for spec in own if graded[spec.spec_id].passed is wanted] for wanted in (False, True))
    chosen = [*failed[: MOST_RUNS // 2], *passed[: MOST_RUNS // 2]]
    read = (read_transcript(house, spec, graded[spec.spec_id]) for spec in chosen)
    found = sorted((each for each in read if each is not None), key=lambda each: each.run)
    told = chain.from_iterable(
        [each for each in found if each.passed is wanted][:MOST_OF_A_SORT] for wanted in (False, True)
    )
    return tuple(with_last_seen(house, each) for each in told)


def was_asked(store: EventStore, run: str) -> bool:
    """True if a recovery model was asked about a run."""
    events = (item.event for item in store.read(stream=f"run/{run}", types=["ModelCalled"]))
    return any(isinstance(event, ModelCalled) and event.role == "recovery" for event in events)


def lessons_on(
    house: House, views: Views, environment: str, statuses: Collection[str], kinds: Iterable[PieceKind]
) -> list[OccasionPiece]:
    """Pieces of these kinds without a change of an environment, with one of these statuses. Erased ones are left out.

    The content of no other piece is read.
    """
    found = (state for kind in kinds for state in views.find(LOOSE[kind]).values() if state.status in statuses)
    states = (state for state in found if state.occasion.get("environment") == environment)
    pieces = (load_piece(state, content_reader(house.blobs)) for state in states)
    return [piece for piece in pieces if isinstance(piece, OccasionPiece) and piece.change is None]


def _on_trial(house: House, views: Views, sweep: SweepPlanned) -> Counter[str | None]:
    """Number of lessons by reflection on trial that the sweep itself has not proposed, by cluster."""
    found = lessons_on(house, views, sweep.environment, ("candidate",), ("recipe",))
    states, own = views.pick(LOOSE["recipe"], {lesson.piece for lesson in found}), f"{sweep.sweep}__"
    others = (lesson for lesson in found if not states[lesson.piece].proposed_by.startswith(own))
    return Counter(lesson.occasion.cluster for lesson in others)


def _lesson_texts(house: House, views: Views, environment: str, cluster: str | None) -> list[str]:
    """Texts of the lessons of a site that are in force or on trial, those of a cluster first."""
    kinds = tuple(kind for kind in LOOSE if kind not in WHOLE_TEXTS)
    found = lessons_on(house, views, environment, ("candidate", "promoted"), kinds)
    own = sorted((lesson.occasion.cluster != cluster, lesson.text) for lesson in found if lesson.is_in_words)
    return [text for _, text in own]
