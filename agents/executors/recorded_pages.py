"""Replays recorded pages in place of a site, so that the plan executor can walk them without a network.

A page is recorded as text. The text names links, labels and buttons, but neither the target of a link, nor the kind and
options of a field, nor what a form sent. These are taken from the recorded steps and listed in `Walked.trusted`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

import httpx2
from lxml import html

from eventlog.events import Step, StepTaken

from ..envs.clients.controls import controls, offers
from ..envs.clients.pages import LONGEST_TEXT, Page, normalize_label
from ..envs.clients.session import Session
from ..plans import Plan
from .executor import Execution
from .plan import execute

ROOT = "http://recorded.invalid/"
LINK, FORM = "@link/", "@form"
NOTHING_RECORDED = 410
_MARKED = re.compile(r"\[(a|label|button)\] (.*)")
_NO_FIELD = "no_such_field"


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A recorded step: the plan's step, its event, and the text of the page it led to, if any."""

    step: Step
    event: StepTaken
    text: str | None


@dataclass(frozen=True, slots=True)
class Walked:
    """Result of walking a plan over recorded pages: its requests in order, and facts from recorded steps alone."""

    execution: Execution
    requests: tuple[str, ...]
    trusted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Shown:
    """A recorded page as HTML, and the facts about it that come from recorded steps alone."""

    content: str
    trusted: tuple[str, ...]


def walk_record(plan: Plan, record: Sequence[RecordedStep], *, max_steps: int) -> Walked:
    """Execute a plan over recorded pages: each request is answered with the next page of the record.

    A request after the last page is answered with status 410.
    """
    led = [place for place, step in enumerate(record) if step.text is not None]
    pages = [
        _rebuild_page(record[place].text or "", record[place + 1 : following + 1])
        for place, following in zip(led, [*led[1:], len(record)], strict=True)
    ]
    requests: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        number = len(requests)
        requests.append(_path_of(request.url))
        if number >= len(pages):
            return httpx2.Response(NOTHING_RECORDED, html="<p>nothing was recorded</p>")
        return httpx2.Response(record[led[number]].event.http_status or 200, html=pages[number].content)

    with Session(ROOT, transport=httpx2.MockTransport(answer)) as session:
        execution = execute(plan, session, max_steps=max_steps)
    return Walked(execution, tuple(requests), tuple(note for page in pages for note in page.trusted))


def describe_request(step: Step) -> str:
    """Describes the request of a step that leads to a page."""
    if step.type == "navigate":
        return _path_of(httpx2.URL(ROOT + (step.url or "/").lstrip("/")))
    return "follow a link" if step.type == "click" else "send a form"


def _path_of(url: httpx2.URL) -> str:
    path = str(url).removeprefix(ROOT)
    if path.startswith(LINK):
        return "follow a link"
    return "send a form" if path.startswith(FORM) else f"open /{path}"


@dataclass
class _Parts:
    """Controls that are added to a page, and the control of each label."""

    text: str
    controls: dict[str, str] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)
    trusted: list[str] = field(default_factory=list)

    def says(self, label: str) -> bool:
        """True if the text contains these words, or was cut and may have contained them."""
        return len(self.text) >= LONGEST_TEXT or normalize_label(label) in normalize_label(
            _MARKED.sub(r"\2", self.text)
        )


def _rebuild_page(text: str, decisions: Sequence[RecordedStep]) -> _Shown:
    """Rebuild a page so that the steps taken on it can be repeated, as far as its text supports them."""
    shown = controls(_page(_html(text, {}, ())))
    parts = _Parts(text)
    for decision in decisions:
        label = decision.step.label or ""
        is_shown = offers(shown, decision.step)
        match decision.step.type:
            case "click":
                _trust_link(parts, decision, label, is_shown=is_shown)
            case "submit":
                _trust_button(parts, decision, label, is_shown=is_shown)
            case "fill_field" | "select_option":
                _trust_field(parts, decision, label, is_shown=is_shown)
            case "navigate":
                pass
    return _Shown(_html(text, parts.controls, parts.added), tuple(parts.trusted))


def _trust_link(parts: _Parts, decision: RecordedStep, label: str, *, is_shown: bool) -> None:
    if not is_shown and decision.event.outcome != "no_such_link" and parts.says(label):
        parts.added.append(f'<a href="/{LINK}added">{escape(label)}</a>')
        parts.trusted.append(f"step {decision.event.index}: that “{label}”, which the page says, is a link")


def _trust_button(parts: _Parts, decision: RecordedStep, label: str, *, is_shown: bool) -> None:
    if not is_shown and decision.event.outcome != _NO_FIELD:
        parts.added.append(f"<button>{escape(label)}</button>")
        parts.trusted.append(f"step {decision.event.index}: that there is a button “{label}”")


def _trust_field(parts: _Parts, decision: RecordedStep, label: str, *, is_shown: bool) -> None:
    event, is_select = decision.event, decision.step.type == "select_option"
    name = f"step {event.index}: "
    if event.outcome == _NO_FIELD:
        if is_shown:
            parts.controls[normalize_label(label)] = ""
            parts.trusted.append(f"{name}that the field “{label}” is of another kind")
        return
    if is_select:
        option = f"<option>{escape(decision.step.value or '')}</option>" if event.outcome == "ok" else ""
        control = f'<select id="{escape(label)}" name="x">{option}</select>'
        has = "has" if option else "lacks"
        parts.trusted.append(f"{name}that “{label}” {has} the option “{decision.step.value or ''}”")
    else:
        control = _input(label)
    parts.controls[normalize_label(label)] = control
    # A page's text omits a label that encloses its options, so the label of a choice may be missing.
    if not is_shown and (is_select or parts.says(label)):
        parts.added.append(f'<label for="{escape(label)}">{escape(label)}</label>{control}')
        parts.trusted.append(f"{name}that there is a field “{label}”")


def _html(text: str, controls: Mapping[str, str], added: Sequence[str]) -> str:
    lines = "".join(_line(line, number, controls) for number, line in enumerate(text.split("\n")))
    return f'<html><body><form method="post" action="/{FORM}">{lines}{"".join(added)}</form></body></html>'


def _line(line: str, number: int, controls: Mapping[str, str]) -> str:
    found = _MARKED.fullmatch(line)
    if found is None:
        return f"<p>{escape(line)}</p>"
    kind, words = found[1], found[2]
    match kind:
        case "a":
            return f'<a href="/{LINK}{number}">{escape(words)}</a>'
        case "label":
            control = controls.get(normalize_label(words), _input(words))
            return f'<label for="{escape(words)}">{escape(words)}</label>{control}'
        case _:
            return f"<button>{escape(words)}</button>"


def _input(label: str) -> str:
    return f'<input id="{escape(label)}" name="x">'


def _page(content: str) -> Page:
    return Page(200, "/", ROOT, ROOT, html.document_fromstring(content))
