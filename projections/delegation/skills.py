"""Skills: those of each delegation loop as its catalogue, and the latest of each name over all loops."""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from ..engine.projection import EventRow, Fold, FoldState
from .budgets import loop_stream


class SkillEntry(Struct, frozen=True, kw_only=True):
    """A skill in a catalogue: version, one line, address of its text, who wrote it."""

    version: int
    line: str
    content: str
    worker: str = ""
    iteration: int = 0


class SkillCatalogue(FoldState, frozen=True, kw_only=True):
    """The skills that a loop may refer to, by name: those offered when it opened, and those written since."""

    skills: dict[str, SkillEntry] = field(default_factory=dict)


class SkillState(FoldState, frozen=True, kw_only=True):
    """The latest version of a skill. `loop` None: imported."""

    skill: str = ""
    loop: str | None = None
    worker: str = ""
    version: int = 0
    line: str = ""
    words: int = 0
    content: str = ""
    since: int = 0


def _catalogue(state: SkillCatalogue, row: EventRow) -> SkillCatalogue:
    if row.type == "LoopOpened":
        offered = {
            each["skill"]: SkillEntry(version=0, line=each["line"], content=each["content"])
            for each in row.records("skills")
        }
        return SkillCatalogue(skills=offered)
    entry = SkillEntry(
        version=row.number("version"),
        line=row.text("line"),
        content=row.text("content"),
        worker=row.text("worker"),
        iteration=row.number("iteration"),
    )
    return replace(state, skills={**state.skills, row.text("skill"): entry})


def _latest(state: SkillState, row: EventRow) -> SkillState:
    return SkillState(
        skill=row.text("skill"),
        loop=row.maybe_text("loop"),
        worker=row.text("worker"),
        version=state.version + 1,
        line=row.text("line"),
        words=row.number("words"),
        content=row.text("content"),
        since=row.position,
    )


_READ = ("loop", "worker", "iteration", "skill", "version", "content", "line")

LOOP_SKILLS = Fold(
    name="loop_skills",
    version=1,
    reads={"LoopOpened": ("loop", "skills"), "SkillSaved": _READ},
    initial=SkillCatalogue(),
    key=lambda row: row.maybe_text("loop"),
    fold=_catalogue,
    stream_of=loop_stream,
)

SKILLS = Fold(
    name="skills",
    version=2,
    reads={"SkillSaved": ("loop", "worker", "skill", "content", "line", "words")},
    initial=SkillState(),
    key=lambda row: row.text("skill"),
    fold=_latest,
)
