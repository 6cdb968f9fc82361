"""Skills: knowledge that a worker writes as Markdown for later workers. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

LONGEST_SKILL: Final = 20_000
LONGEST_SLUG: Final = 60
LONGEST_LINE: Final = 150
INLINE_FROM: Final = 80
"""A reference longer than this is a whole skill, and so is one that begins with `#`."""

UNNAMED: Final = "unnamed_skill"
_NOT_PLAIN: Final = re.compile(r"[^a-z0-9]+")
_PREFIX: Final = re.compile(r"^skill\s*:\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SkillText:
    """A skill: its name, one line for the catalogue, and its whole text."""

    name: str
    line: str
    text: str

    @property
    def words(self) -> int:
        """How many words it has."""
        return len(self.text.split())


def skill_of(text: str) -> SkillText:
    """A skill of Markdown. Its name is made of the first heading."""
    whole = text.strip()[:LONGEST_SKILL]
    return SkillText(skill_name(whole), catalogue_line(whole), whole)


def skill_name(text: str) -> str:
    """The name of a skill: its first heading in lower case, other characters than letters and digits as `_`."""
    heading = next((line[2:] for line in text.splitlines() if line.startswith("# ")), "")
    return slug(_PREFIX.sub("", heading.strip())) or UNNAMED


def slug(text: str) -> str:
    """A text as a name of lower-case letters, digits and `_`; it is no path, whatever the text holds."""
    return _NOT_PLAIN.sub("_", text.lower()).strip("_")[:LONGEST_SLUG].strip("_")


def catalogue_line(text: str) -> str:
    """The first line under `## Purpose`, else the first line that is no heading."""
    lines = [line.strip() for line in text.splitlines()]
    at = next((n for n, line in enumerate(lines) if line.lower().startswith("## purpose")), None)
    if at is not None:
        for line in lines[at + 1 :]:
            if line.startswith("## "):
                break
            if line:
                return line[:LONGEST_LINE]
    return next((line for line in lines if line and not line.startswith("#")), "")[:LONGEST_LINE]


def listed_skills(result: Mapping[str, object]) -> list[Any]:
    """What a worker's result lists as skills: under `skills_created`, else under `skills`."""
    listed = result.get("skills_created", result.get("skills"))
    return listed if isinstance(listed, list) else []


def skills_in(result: Mapping[str, object], least_words: int) -> tuple[SkillText, ...]:
    """The skills in a worker's result. Short ones are left out.

    Of two with one heading the last stays. All without a heading have one name, and all of them stay.
    """
    found: dict[str, SkillText] = {}
    for each in listed_skills(result)[:50]:
        text = each.get("content") or each.get("text") if isinstance(each, Mapping) else each
        if not isinstance(text, str) or len(text.split()) < least_words:
            continue
        skill = skill_of(text)
        heading = skill.text if skill.name == UNNAMED else skill.name
        found.pop(heading, None)
        found[heading] = skill
    return tuple(found.values())


def free_name(name: str, content: str, known: Mapping[str, str], taken: Mapping[str, str]) -> str:
    """The name under which a skill is kept: its own, or with a number if another one came first.

    `known` are the contents of the catalogue by name, `taken` those that workers of this iteration wrote. A later
    iteration replaces a skill of the same heading; workers of one iteration do not replace each other's, and a skill
    without a heading replaces none.
    """
    rivals = known if name == UNNAMED else taken
    candidate, number = name, 1
    while rivals.get(candidate, content) != content:
        number += 1
        candidate = f"{name[: LONGEST_SLUG - 4]}_{number}"
    return candidate


def skill_names_in(result: Mapping[str, object], least_words: int) -> tuple[str, ...]:
    """The names of the skills in a worker's result."""
    return tuple(skill.name for skill in skills_in(result, least_words))


@dataclass(frozen=True, slots=True)
class Reference:
    """A skill that an envelope refers to: by name, or whole (`inline`)."""

    name: str
    inline: str | None


def references_in(skills: Iterable[str]) -> tuple[Reference, ...]:
    """The references of an envelope; blank ones are left out."""
    found = []
    for each in skills:
        text = each.strip()
        if text.startswith("#") or len(text) > INLINE_FROM:
            found.append(Reference(skill_name(text), text[:LONGEST_SKILL]))
        elif slug(text):
            found.append(Reference(slug(text), None))
    return tuple(found)


def resolve_skills(skills: Iterable[str], catalogue: Mapping[str, str]) -> tuple[str, ...]:
    """Whole skills for a worker. A name resolves in the catalogue (name to text); an unknown one is passed as it is."""
    return tuple(
        each.inline if each.inline is not None else catalogue.get(each.name, each.name)
        for each in references_in(skills)
    )


def catalogue_section(lines: Mapping[str, str]) -> str:
    """The catalogue for a manager's prompt: names and one line each; empty without skills."""
    if not lines:
        return ""
    return "\n".join(["## Skills", *(f"- **`{name}`**: {lines[name]}" for name in sorted(lines))])
