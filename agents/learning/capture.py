"""Capture: derive candidate pieces of memory for failing steps from runs that passed. Pure; trials decide later.

An exemplar is what a good run did at a similar step, or the single step before it. A recipe is the two or more steps
that good runs took before the step. A snippet is a link on a page that leads to what a failing navigation is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from eventlog.blobs import Blob
from eventlog.events import (
    Change,
    ExemplarCaptured,
    FollowLink,
    HintRecorded,
    InsertSteps,
    Occasion,
    PieceKind,
    PieceProposed,
    PieceSource,
    PreferTarget,
    PromotionRule,
    RecipeImported,
    SnippetLearned,
    Step,
)

from ..plans import Plan, apply_change
from .occasions import LEAST_SHARE, does, lesson_id, occasion_at
from .piece_content import MEDIA_TYPE, content_bytes
from .ranking import word_share

LEAST_RUNS: Final = 3
"""Good runs required to show a snippet or a recipe."""

MOST_OF_A_STEP: Final = 2
"""Most pieces of one kind captured per failing step."""

_LABELLED: Final = frozenset({"click", "submit", "fill_field", "select_option"})

CapturedEvent = HintRecorded | ExemplarCaptured | SnippetLearned | RecipeImported | PieceProposed


@dataclass(frozen=True, slots=True)
class GoodRun:
    """A run that passed with an unchanged artifact: its executed plan, and its reward in millionths."""

    run: str
    template: str
    plan: Plan
    reward: int


@dataclass(frozen=True, slots=True)
class FailingStep:
    """A step of a template at which runs failed."""

    environment: str
    template: str
    plan: Plan
    place: int

    @property
    def step(self) -> Step:
        """The failing step."""
        return self.plan[self.place]


@dataclass(frozen=True, slots=True)
class Captured:
    """A piece captured from runs: its occasion, its change, the runs that show it (best first), best reward.

    A lesson in words has no change.
    """

    kind: PieceKind
    occasion: Occasion
    change: Change | None
    title: str
    text: str
    runs: tuple[str, ...]
    reward: int
    source: PieceSource = "good_run"

    @property
    def name(self) -> str:
        """Piece id, which does not depend on the runs that show the piece."""
        return lesson_id(self.kind, self.occasion, self.change, self.text)

    @property
    def content(self) -> Blob:
        """Blob of text and change that the event refers to."""
        return Blob(MEDIA_TYPE, content_bytes(self.text, self.change))

    def event(self, rule: PromotionRule) -> CapturedEvent:
        """Event that proposes the piece under this promotion rule."""
        known = {
            "occasion": self.occasion,
            "content": self.content.digest,
            "rule": rule,
            "run": self.runs[0],
            "source": self.source,
        }
        match self.kind:
            case "hint":
                return HintRecorded.model_validate({"hint": self.name, "confidence": self.reward, **known})
            case "exemplar":
                form = "inject" if isinstance(self.change, InsertSteps) else "nudge"
                return ExemplarCaptured.model_validate(
                    {"exemplar": self.name, "form": form, "reward": self.reward, **known}
                )
            case "snippet":
                return SnippetLearned.model_validate({"snippet": self.name, "title": self.title, **known})
            case "skill" | "instruction":
                facts = {"piece": self.name, "kind": self.kind, "title": self.title}
                return PieceProposed.model_validate({**facts, **known})
            case _:
                return RecipeImported.model_validate({"recipe": self.name, "title": self.title, **known})


def capture(failing: Iterable[FailingStep], good: Iterable[GoodRun]) -> tuple[Captured, ...]:
    """Pieces captured from good runs for failing steps, sorted by id. The order of the inputs does not matter."""
    runs = sorted(good, key=lambda run: (-run.reward, run.run))
    found: dict[str, Captured] = {}
    for failed in failing:
        for kind in ("exemplar", "snippet", "recipe"):
            shown = [each for each in _gather(failed, runs) if each.kind == kind]
            enough = [each for each in shown if kind == "exemplar" or len(each.runs) >= LEAST_RUNS]
            ranked = sorted(enough, key=lambda each: (-_likeness(failed, each), -each.reward, each.name))
            found |= {each.name: each for each in ranked[:MOST_OF_A_STEP]}
    return tuple(found[name] for name in sorted(found))


def failing_place(plan: Plan, intent: str | None) -> int | None:
    """Index of the failed step; if every step succeeded but the oracle failed the run, index of the last submit."""
    if intent is not None:
        return next((place for place, step in enumerate(plan) if step.intent == intent), None)
    return next((place for place in reversed(range(len(plan))) if plan[place].type == "submit"), None)


def _gather(failed: FailingStep, runs: Sequence[GoodRun]) -> list[Captured]:
    """Pieces shown for a failing step, each once with all its runs; `runs` are sorted best first."""
    found: dict[str, Captured] = {}
    for run in runs:
        for each in _pieces_shown(failed, run):
            before = found.get(each.name)
            found[each.name] = each if before is None else _with(before, each)
    return list(found.values())


def _with(one: Captured, other: Captured) -> Captured:
    runs = one.runs if other.runs[0] in one.runs else (*one.runs, *other.runs)
    return Captured(one.kind, one.occasion, one.change, one.title, one.text, runs, one.reward)


def _pieces_shown(failed: FailingStep, run: GoodRun) -> Iterator[Captured]:
    occasion = occasion_at(failed.environment, failed.plan, failed.place)
    for place, step in enumerate(run.plan):
        if failed.step.type == "navigate":
            yield from _snippet(failed, run, place)
        if step.type != failed.step.type or step.type not in _LABELLED:
            continue
        if _alike(failed.step, step) and step.label and step.label != failed.step.label:
            yield _piece("exemplar", occasion, PreferTarget(label=step.label), f"“{step.label}”", run)
        lead = _lead_in(failed, run.plan, place) if _same(failed.step, step) else ()
        if lead:
            kind: PieceKind = "exemplar" if len(lead) == 1 else "recipe"
            title = ", then ".join(each.intent for each in lead)
            yield _piece(kind, occasion, InsertSteps(steps=lead), title, run)


def _snippet(failed: FailingStep, run: GoodRun, place: int) -> Iterator[Captured]:
    """Yield the page a good run opened and the link it followed, if the link's label matches the failing navigation."""
    if place + 1 >= len(run.plan):
        return
    opened, followed = run.plan[place], run.plan[place + 1]
    if (opened.type, followed.type) != ("navigate", "click") or opened.url is None or not followed.label:
        return
    if word_share(followed.label, f"{failed.step.intent} {failed.step.url or ''}") < LEAST_SHARE:
        return
    change = FollowLink(page=opened.url, label=followed.label)
    occasion = Occasion(environment=failed.environment, type="navigate", intent=followed.label, page="")
    if apply_change(failed.step, change) != (failed.step,):
        yield _piece("snippet", occasion, change, followed.label, run)


def _piece(kind: PieceKind, occasion: Occasion, change: Change, title: str, run: GoodRun) -> Captured:
    where = f"at “{occasion.intent}”" if kind != "snippet" else "to get there"
    text = f"{title}: a run that passed did so {where}"
    return Captured(kind, occasion, change, title, text, (run.run,), run.reward)


def _alike(failed: Step, step: Step) -> bool:
    return word_share(failed.intent, f"{step.intent} {step.label or ''}") >= LEAST_SHARE


def _same(failed: Step, step: Step) -> bool:
    return (failed.label, failed.value) == (step.label, step.value)


def _lead_in(failed: FailingStep, plan: Plan, place: int) -> Plan:
    """Steps directly before `place` that the failing plan does not contain."""
    known = {does(step) for step in failed.plan}
    begin = place
    while begin and (does(plan[begin - 1]) not in known) and plan[begin - 1].type != "navigate":
        begin -= 1
    return plan[begin:place]


def _likeness(failed: FailingStep, captured: Captured) -> int:
    return word_share(f"{failed.step.intent} {failed.step.label or ''} {failed.step.url or ''}", captured.title)
