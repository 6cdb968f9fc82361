"""Memory that a caller of the proxy asks for: what an artifact has learned for a site, put into the caller's requests.

The pieces are chosen once a run, by the words of its first request or by the task that it names, so that a growing
conversation keeps its beginning. The run's start in the log names them, for every process and after a restart.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final

from agents.learning.advice import advice_lines, applied_of, notes_paragraphs, worth_telling
from agents.learning.guidance import guidance_text
from agents.learning.occasions import OccasionPiece
from agents.suites.errors import NoSuite
from agents.suites.in_log import suite_for
from eventlog.events import Applied, Artifact, RunStarted, Template
from projections.environments import ENVIRONMENTS

from ..evaluations.artifacts import resolve_artifact
from ..house import House
from ..queries.champion import present_champion
from ..sweeps.jobs import pieces_of
from .call_appends import RunOpening
from .calls import ModelCall
from .errors import BadCall
from .named_models import names_artifact
from .outside_facts import NOTHING

HEADER: Final = "X-Flywheel-Memory"
_REMEMBERED: Final = 4096
_LONGEST: Final = 4000
"""Characters of a request's first words by which pieces are ranked."""


@dataclass(frozen=True, slots=True)
class ToldMemory:
    """What a run is told: the artifact whose memory it is, its pieces, and the paragraph, empty without any."""

    artifact: Artifact
    applied: tuple[Applied, ...]
    paragraph: str


@dataclass
class MemoryTeller:
    """Chooses what runs are told. Thread-safe; a run is told one memory, by this process or another, as it began."""

    house: House
    _known: OrderedDict[tuple[str, str], ToldMemory] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def tell_run(self, opening: RunOpening, call: ModelCall, site: str) -> ToldMemory:
        """The memory of the artifact that is called by name, else of the champion, as it is told of a site.

        Raises BadCall for a site that the log does not know, and what reading an artifact raises.
        """
        key = (opening.token, opening.run)
        with self._lock:
            known = self._known.get(key)
        if known is not None:
            return known
        told = self._recall(opening) or self._choose(opening, call, site)
        with self._lock:
            told = self._known.setdefault(key, told)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return told

    def _recall(self, opening: RunOpening) -> ToldMemory | None:
        """What the run was told when it began, by its start in the log: nothing, if no memory is known of it.

        None if it has not begun.
        """
        first = self.house.store.first_of(f"run/{opening.run}")
        if first is None or not isinstance(first.event, RunStarted) or first.actor != opening.actor:
            return None
        artifact, applied = first.event.artifact, first.event.applied
        if artifact.memory.digest == NOTHING.digest:
            return ToldMemory(artifact, (), "")
        held = {each.piece: each for each in pieces_of(self.house, artifact) if isinstance(each, OccasionPiece)}
        told = tuple(held[each.piece] for each in applied if each.piece in held)
        return ToldMemory(artifact, applied, _paragraph_of(told))

    def _choose(self, opening: RunOpening, call: ModelCall, site: str) -> ToldMemory:
        views = self.house.views()
        if views.get(ENVIRONMENTS, site) is None:
            raise BadCall(where=HEADER, actual=repr(site), expected="the name of a site that the log knows")
        if names_artifact(call.model):
            artifact, memory = resolve_artifact(self.house, call.model)
            self.house.blobs.put([memory])
        else:
            artifact = present_champion(views).pointed_artifact()
        told = worth_telling(self._task(opening, call, site), site, pieces_of(self.house, artifact))
        return ToldMemory(artifact, applied_of(told), _paragraph_of(told))

    def _task(self, opening: RunOpening, call: ModelCall, site: str) -> Template:
        """The task of the site's suite that the run names; without one, the first words that the model is told."""
        try:
            tasks = suite_for(self.house.store, self.house.views(), site).suite.tasks
        except NoSuite:
            tasks = ()
        task = next((each for each in tasks if each.id == opening.task), None)
        words = first_words(call) if task is None or task.instruction is None else task.instruction
        return Template(
            template_id=opening.task,
            cluster="unsorted" if task is None or task.cluster is None else task.cluster,
            oracle_task_id=opening.task,
            instruction=words,
            plan_text="none: who calls has its own",
        )


def _paragraph_of(told: Sequence[OccasionPiece]) -> str:
    return notes_paragraphs(guidance_text(told), advice_lines(told)).strip()


def first_words(call: ModelCall) -> str:
    """The text of the first message of a user, or of a prompt; empty without any."""
    for message in call.messages:
        if message.get("role") in {"user", "prompt"}:
            return _text_of(message.get("content", ""))[:_LONGEST]
    return ""


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else ()
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)


def with_memory(opening: RunOpening, told: ToldMemory) -> RunOpening:
    """The opening of a run that is told memory."""
    return replace(opening, memory=told.artifact.memory, applied=told.applied)
