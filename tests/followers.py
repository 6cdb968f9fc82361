"""A rule agent that does what a plan says, and, where it is told a lesson in words, what the lesson says. No model.

It reads nothing but the conversation of a policy. It understands the sentences in which lessons are written and no
other, so what it gets better by is what it was told.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from agents.executors.actions import NotAnAction, step_of
from agents.learning.piece_content import page_pattern
from agents.learning.step_words import say_step
from agents.models.model import CompletionRequest, Sample
from eventlog.events import Step, StepType

TOLD: Final = re.compile(r"^- “(.*)”$", re.MULTILINE)
GUIDED: Final = re.compile(r"^“(.*)”$", re.MULTILINE)
SENTENCE_END: Final = re.compile(r"(?<=\.) (?=[A-Z])")
PAGE: Final = re.compile(r"^page (/\S*), status \d+$", re.MULTILINE)
CONTROL: Final = re.compile(r"^\[(link|button|choice)\] (.+?)(?:: \"[^\"]*\" of (.*)| -> .*)?$", re.MULTILINE)
LESSON: Final = re.compile(
    r"(?:On (?P<page>\S+): |(?P<start>At the start: |Next: ))?(?P<rest>.*?)\.(?: A run that .*)?"
)
SENTENCES: Final[tuple[tuple[StepType, re.Pattern[str]], ...]] = (
    ("navigate", re.compile(r"open (?P<url>/\S*)")),
    ("click", re.compile(r"follow the link '(?P<label>.*)'")),
    ("fill_field", re.compile(r"write '(?P<value>.*)' into '(?P<label>.*)'")),
    ("select_option", re.compile(r"choose '(?P<value>.*)' at '(?P<label>.*)'")),
    ("submit", re.compile(r"press the button '(?P<label>.*)'")),
)


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a sentence tells: these steps on a page, before or after a step, in its place, or where they can be done."""

    steps: tuple[str, ...]
    page: str | None = None
    is_anywhere: bool = False
    before: str | None = None
    after: str | None = None
    instead: str | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """A conversation so far: what was done and said of it, the last page, and everything seen on it."""

    done: tuple[str, ...]
    outcomes: tuple[str, ...]
    page: str
    words: str
    lessons: tuple[Lesson, ...]


@dataclass(frozen=True, slots=True)
class Follower:
    """Answers as a policy. Before a step that sends or fails it tries a control that it sees with chance `explores`.

    `choices` are the sentences that can be done with what was seen, for the one that is wanted; `named` puts the names
    that were seen into a sentence.
    """

    plan: tuple[Step, ...]
    instruction: str
    explores: float = 0.0
    choices: Callable[[str, str], Iterator[str]] = lambda words, _wanted: _choices(words)
    named: Callable[[str, str], str] = lambda _words, sentence: sentence

    def __call__(self, request: CompletionRequest) -> str:
        """The next action."""
        seen = read_conversation(request, self.instruction)
        sentence = self._next(seen, random.Random(f"{request.sampling.seed} {len(seen.done)}"))  # noqa: S311 (a rule)
        return answer(None if sentence is None else self.named(seen.words, sentence))

    def _next(self, seen: Seen, rng: random.Random) -> str | None:
        own = [say_step(step, self.instruction) or "" for step in self.plan]
        spoken = dict(zip(own, (sentence_of(step) for step in self.plan), strict=True))
        took = [said for said, went in zip(seen.done, seen.outcomes, strict=True) if went == "ok"]
        for lesson in seen.lessons:
            is_here = lesson.page is not None and page_pattern(seen.page) == lesson.page
            left = _left(lesson.steps, seen.done)
            if left and (is_here or (lesson.is_anywhere and left in self.choices(seen.words, left))):
                return left
        for lesson in seen.lessons:
            if lesson.after in took and (left := _left(lesson.steps, seen.done)):
                return left
        wanted = next((said for said in self._way(own, seen, took) if said not in took), None)
        if wanted is None:
            return self._explore(seen, rng, "") if rng.random() < self.explores else None
        has_failed = wanted in seen.done
        if (has_failed or wanted.startswith("press")) and rng.random() < self.explores:
            return self._explore(seen, rng, wanted) or spoken.get(wanted, wanted)
        return None if has_failed and seen.done[-1] == wanted else spoken.get(wanted, wanted)

    def _way(self, own: list[str], seen: Seen, took: list[str]) -> Iterator[str]:
        """The plan's steps, with what lessons put before them or in their place, where that did not fail here."""
        failed = {said for said in seen.done if said not in took}
        for said in own:
            for lesson in seen.lessons:
                yield from (each for each in lesson.steps if each not in failed) if lesson.before == said else ()
            told = (each for each in seen.lessons if each.instead == said and failed.isdisjoint(each.steps))
            instead = next(told, None)
            yield from (said,) if instead is None else instead.steps

    def _explore(self, seen: Seen, rng: random.Random, wanted: str) -> str | None:
        shown = list(dict.fromkeys(self.choices(seen.words, wanted)))
        left = [each for each in shown if each not in seen.done]
        return rng.choice(left) if left else None


def read_conversation(request: CompletionRequest, instruction: str) -> Seen:
    """What a policy's conversation holds."""
    messages = request.messages[1:]
    done: list[str] = []
    outcomes: list[str] = []
    page, words = "", ""
    for told in messages:
        if told.role == "user":
            found = PAGE.search(told.text)
            page, words = (found[1], told.text) if found else (page, f"{words}\n{told.text}")
            if len(outcomes) < len(done):
                outcomes.append(re.split(r"[,\n]", told.text, maxsplit=1)[0])
        elif told.role == "assistant":
            done += [taken] if (taken := _taken(told.text, instruction)) else []
    guided = (line for text in GUIDED.findall(request.messages[0].text) for line in SENTENCE_END.split(text))
    lines = (*guided, *TOLD.findall(messages[0].text))
    lessons = tuple(filter(None, map(parse_lesson, lines)))
    return Seen(tuple(done), tuple(outcomes), page, words, lessons)


def parse_lesson(line: str) -> Lesson | None:
    """What a line of advice tells; None if it is no sentence of a lesson."""
    found = LESSON.fullmatch(line)
    if found is None:
        return None
    rest, page = found["rest"], found["page"]
    rest = rest[0].lower() + rest[1:] if rest else rest
    for where in ("before", "after"):
        if rest.startswith(f"{where} you "):
            at, _, steps = rest.removeprefix(f"{where} you ").partition(": ")
            told = Lesson(tuple(steps.split(", then ")))
            return replace(told, before=at) if where == "before" else replace(told, after=at)
    steps, _, instead = rest.partition(", not: ")
    is_anywhere = found["start"] is not None and not instead
    return Lesson(tuple(steps.split(", then ")), None if instead else page, is_anywhere, instead=instead or None)


def sentence_of(step: Step) -> str:
    """A step in the words of a lesson, with its own numbers."""
    if step.type == "navigate":
        return f"open {step.url}"
    return say_step(step, f"{step.url} {step.label} {step.value}") or ""


def answer(sentence: str | None) -> str:
    """The answer of a policy that does what a sentence says; that it is done where there is none."""
    for kind, pattern in SENTENCES:
        found = None if sentence is None else pattern.fullmatch(sentence)
        if found is not None:
            said = found.groupdict()
            target = said.get("url") or said.get("label") or ""
            return json.dumps({"why": "it is next", "action": kind, "target": target, "value": said.get("value", "")})
    return json.dumps({"why": "it is done", "action": "finish", "target": "", "value": ""})


def _taken(text: str, instruction: str) -> str | None:
    try:
        return say_step(step_of("rule", Sample(text, "stop"), "text"), instruction)
    except NotAnAction:
        return None


def _choices(words: str) -> Iterator[str]:
    for kind, label, options in CONTROL.findall(words):
        if kind == "link" and not re.search(r"\d", label):
            yield f"follow the link '{label}'"
        elif kind == "button":
            yield f"press the button '{label}'"
        elif kind == "choice" and '"checked"' in options:
            yield f"choose 'checked' at '{label}'"


def _left(steps: tuple[str, ...], done: tuple[str, ...]) -> str | None:
    return next((each for each in steps if each not in done), None)
