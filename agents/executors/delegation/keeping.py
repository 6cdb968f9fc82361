"""Skills of an iteration, kept once all its workers have returned, so that threads do not decide which one stays."""

from __future__ import annotations

from collections.abc import Sequence

from eventlog.events import LoopConfig, SkillSaved

from ...delegation.envelopes import Envelope
from ...delegation.results import plain_line
from ...delegation.skills import LONGEST_LINE, SkillText, free_name, references_in, skill_of, skills_in
from .journal import LoopJournal


def keep_skills(journal: LoopJournal, envelopes: Sequence[Envelope], config: LoopConfig) -> None:
    """Append the skills of an iteration's envelopes and results, those of a worker first whose name comes first.

    Does nothing the second time, so that a loop that was killed in between can do it again.
    """
    if not config.skills.enabled:
        return
    brought = {each.worker_id: _inline_skills(each, config) for each in envelopes}
    written: list[tuple[str, SkillText]] = []
    for each in sorted(journal.state.returned, key=lambda returned: returned.worker):
        own = skills_in(journal.record_at(each.result), config.skills.min_words)
        replaced = {skill.name for skill in own}
        inline = [skill for skill in brought.get(each.worker, ()) if skill.name not in replaced]
        written += [(each.worker, skill) for skill in (*inline, *own)]
    saved = _skill_events(journal, written, config.skills.max_total)
    if saved:
        journal.append(*saved)


def _inline_skills(envelope: Envelope, config: LoopConfig) -> list[SkillText]:
    """The skills that an envelope brings whole."""
    inline = [skill_of(each.inline) for each in references_in(envelope.skills) if each.inline is not None]
    return [each for each in inline if each.words >= config.skills.min_words]


def _skill_events(journal: LoopJournal, written: Sequence[tuple[str, SkillText]], most: int) -> list[SkillSaved]:
    """The events that save skills, but for those that are in the catalogue as they are."""
    known = journal.skills.skills
    contents = {name: entry.content for name, entry in known.items()}
    taken: dict[str, str] = {}
    found: list[SkillSaved] = []
    for worker, skill in written:
        content = journal.put_text(skill.text)
        name = free_name(skill.name, content, contents, taken)
        if taken.get(name) == content:
            continue
        is_new = name not in contents
        if is_new and len(contents) >= most:
            continue
        is_known = contents.get(name) == content
        taken[name] = contents[name] = content
        if not is_known:
            found.append(
                SkillSaved(
                    loop=journal.loop,
                    iteration=journal.state.iteration,
                    worker=worker,
                    skill=name,
                    version=1 if is_new else known[name].version + 1,
                    content=content,
                    line=plain_line(skill.line, LONGEST_LINE),
                    words=skill.words,
                )
            )
    return found
