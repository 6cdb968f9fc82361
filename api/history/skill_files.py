"""Skills as Markdown files: written to a folder, and brought in from one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agents.delegation.results import plain_line
from agents.delegation.skills import SkillText, skill_of
from agents.edited_files import read_edited
from eventlog.blobs import Blob
from eventlog.events import SkillSaved
from eventlog.store import Append
from projections.delegation.skills import SKILLS
from projections.engine.paging import page_states

from ..errors import BadSkillFile
from ..house import House
from ..queries.loops import tell_writers

ACTOR = "person"
LEAST_WORDS = 30
MOST_FILE = 100_000


@dataclass(frozen=True, slots=True)
class ImportedSkills:
    """The names of the skills that were brought in, and of those that are known as they are."""

    fresh: tuple[str, ...]
    known: tuple[str, ...]


def export_skills(house: House, folder: Path) -> tuple[str, ...]:
    """Write the latest version of every skill that may be told of to a folder, as NAME.md. Returns the names."""
    folder.mkdir(parents=True, exist_ok=True)
    names: list[str] = []
    views = house.views()
    for page in page_states(views, SKILLS):
        for name, state in tell_writers(views, page).items():
            (folder / f"{name}.md").write_bytes(house.blobs.get(state.content).body)
            names.append(name)
    return tuple(names)


def import_skills(house: House, files: list[Path]) -> ImportedSkills:
    """Bring in skills, each file one. A file with a fault brings in nothing of any. Raises BadSkillFile."""
    skills = {skill.name: skill for skill in map(_read_skill, files)}
    known_states = house.views().pick(SKILLS, skills.keys())
    fresh, known = [], []
    for name, skill in sorted(skills.items()):
        blob = Blob("text/plain; charset=utf-8", skill.text.encode())
        before = known_states.get(name)
        if before is not None and before.content == blob.digest:
            known.append(name)
            continue
        house.blobs.put([blob])
        version = 1 if before is None else before.version + 1
        event = SkillSaved(
            loop=None,
            iteration=0,
            worker=ACTOR,
            skill=name,
            version=version,
            content=blob.digest,
            line=plain_line(skill.line, 150),
            words=skill.words,
        )
        house.store.append([Append(f"skill/{name}", (event,), ACTOR)])
        fresh.append(name)
    return ImportedSkills(tuple(fresh), tuple(known))


def _read_skill(file: Path) -> SkillText:
    expected = f"Markdown with a heading and at least {LEAST_WORDS} words"
    try:
        text = read_edited(file)
    except (OSError, UnicodeDecodeError) as error:
        raise BadSkillFile(file=file, actual=str(error), expected=expected) from None
    skill = skill_of(text)
    if len(text) > MOST_FILE or skill.words < LEAST_WORDS or not text.lstrip().startswith("# "):
        raise BadSkillFile(file=file, actual=f"{skill.words} words", expected=expected)
    return skill
