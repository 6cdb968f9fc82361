"""Verdicts and champion under another definition: judge the recorded runs again, in the order of the log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from eventlog.events import AnyEvent, Artifact, ChampionPointed, Verdict, VerdictReached
from eventlog.store import EventStore, Position
from gate.decision import hide_figures, tell_reasons
from gate.promote import STREAM
from projections.counterfactual import ViewsAt
from projections.verdicts import VERDICTS

from ...evaluations.evaluate import of_the_arms
from ...queries.facts import require
from .report import ChampionWouldBe, Figure, VerdictWouldBe


@dataclass(frozen=True, slots=True)
class Judged:
    """Every verdict of one history in order, and the champion at its end."""

    verdicts: dict[str, Verdict]
    champion: Artifact | None


def judge_verdicts_again(store: EventStore, views_at: ViewsAt, upto: Position) -> Judged:
    """Judge every verdict up to a position again, as of just before it was reached.

    Recomputed verdicts decide who becomes champion; recorded moves by hand are kept, and a promotion that waited for
    other sites waits again. An evaluation against an artifact that would not have been champion is void.
    """
    verdicts: dict[str, Verdict] = {}
    champion: Artifact | None = None
    recorded = tuple(store.read(stream=STREAM, upto=upto))
    waited = _waiting_evaluations(item.event for item in recorded)
    for item in recorded:
        match item.event:
            case VerdictReached() as event:
                verdict = _judge_again(views_at, event.evaluation, Position(item.position - 1), champion)
                verdicts[event.evaluation] = verdict
                if verdict.decision == "promote" and event.evaluation not in waited:
                    champion = verdict.challenger.artifact
            case ChampionPointed() as event if event.by != "gate":
                champion = event.artifact
            case _:
                pass
    return Judged(verdicts, champion)


def _waiting_evaluations(events: Iterable[AnyEvent]) -> frozenset[str]:
    """Evaluations that promoted and did not move the pointer, because it waited for verdicts of other sites."""
    known = tuple(events)
    pointed = {event.evaluation for event in known if isinstance(event, ChampionPointed)}
    promoting = (each for each in known if isinstance(each, VerdictReached) and each.verdict.decision == "promote")
    return frozenset(event.evaluation for event in promoting) - pointed


def _judge_again(views_at: ViewsAt, evaluation: str, at: Position, champion: Artifact | None) -> Verdict:
    views = views_at(at)
    verdict = of_the_arms(views, require(views.get(VERDICTS, evaluation)))
    judged_one = verdict.champion.artifact
    if champion is not None and champion != judged_one:
        reason = f"{judged_one} was judged, but {champion} is champion"
        return verdict.model_copy(update={"decision": "void", "reasons": (reason,)})
    return verdict


def verdicts(truth: Judged, other: Judged, untold: Collection[str] = ()) -> tuple[VerdictWouldBe, ...]:
    """Verdicts whose decision or figures would differ, in the order in which they were reached.

    Of `untold` evaluations only the decision is told.
    """
    found = []
    for evaluation, verdict in truth.verdicts.items():
        would, is_told = other.verdicts[evaluation], evaluation not in untold
        figures = tuple(_figures(_as_told(verdict, is_told=is_told), _as_told(would, is_told=is_told)))
        reasons = would.reasons if is_told else tell_reasons(would)
        if figures or would.decision != verdict.decision or (is_told and would != verdict):
            found.append(VerdictWouldBe(evaluation, verdict.decision, would.decision, reasons, figures))
    return tuple(found)


def _as_told(verdict: Verdict, *, is_told: bool) -> dict[str, Any]:
    """The fields of a verdict as plain values, without those of its sealed part where these may not be told."""
    plain = verdict.model_dump(mode="json")
    return plain if is_told else hide_figures(plain, verdict)


def _figures(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Figure]:
    """Figures that differ, those of an arm one by one; decision and reasons are left out."""
    for name in ("champion", "challenger"):
        for side in (before, after):
            side |= {f"{name} {part}": value for part, value in side.pop(name).items()}
    for name, value in before.items():
        if name not in {"decision", "reasons"} and after[name] != value:
            yield Figure(name, value, after[name])


def champion(truth: Judged, other: Judged) -> ChampionWouldBe | None:
    """The change of the champion; None if it would be the same."""
    if truth.champion == other.champion:
        return None
    actual, would = (None if each is None else str(each) for each in (truth.champion, other.champion))
    return ChampionWouldBe(actual, would)
