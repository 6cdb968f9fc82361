"""`flywheel recipes`: list and show recipes, and export or import all of memory as one editable file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from agents.edited_files import read_edited
from agents.learning.memory_file import BadMemoryFile

from ..history.memory_file import export_memory, import_memory
from .course_options import EvidenceRule
from .output import AsJson, AsOf, emit_json, open_project, say
from .pieces import group_of

app = group_of("recipe")
ACTOR = "person"


@app.command("export")
def export(
    file: Annotated[Path, typer.Argument(help="Where to write it.")], as_of: AsOf = None, as_json: AsJson = False
) -> None:
    """Write the pieces of all kinds to a file, rewrites as recipes of their step.

    What is more than `import` takes goes into FILE-2 and so on.
    """
    with open_project() as house:
        found = export_memory(house, house.views_at(as_of))
    files = [file, *(file.with_stem(f"{file.stem}-{number}") for number in range(2, len(found.texts) + 1))]
    for each, text in zip(files, found.texts, strict=True):
        each.write_text(text, "utf-8")
    if as_json:
        left_out = {"erased": found.erased, "quarantined": found.quarantined, "poisoned": found.poisoned}
        emit_json({"file": str(file), "files": [str(each) for each in files], "pieces": found.pieces, **left_out})
        return
    say(f"{found.pieces} pieces are in {', '.join(map(str, files))}")
    for names, why in (
        (found.erased, "its content was erased"),
        (found.quarantined, "it is quarantined"),
        (found.poisoned, "the run that it was found in was contaminated"),
    ):
        if names:
            say(f"left out, because {why}: {len(names)} ({', '.join(names)})")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A file written by `export`.")],
    rule: Annotated[
        EvidenceRule, typer.Option(help="The rule that decides about the new candidates.")
    ] = EvidenceRule.PAIRED,
    as_json: AsJson = False,
) -> None:
    """Add the pieces of a file that memory lacks, as candidates. A file with a mistake adds nothing."""
    try:
        text = read_edited(file)
    except (OSError, UnicodeDecodeError) as error:
        raise BadMemoryFile(actual=str(error), expected="a file written by `flywheel recipes export`") from None
    with open_project() as house:
        found = import_memory(house, text, rule.rule(), ACTOR)
    if as_json:
        emit_json({"fresh": found.fresh, "known": found.known, "places": found.places, "untried": found.untried})
        return
    say(f"{len(found.fresh)} new candidates, {len(found.known)} known already")
    for name in found.fresh:
        place = found.places.get(name)
        say(f"  {name}, which is tried in the place of {place}" if place else f"  {name}")
    for name, in_force in found.untried.items():
        say(f"  {name} is not tried: {_describe_untried(in_force)}")


def _describe_untried(in_force: Sequence[str]) -> str:
    """Why an instruction is not tried beside those in force, and the way out."""
    named = " or ".join(each or "none" for each in in_force)
    if len(in_force) > 1:
        return f"it is for every cluster, and in force is {named}, by cluster. Name one in its occasion, and import it."
    return f"it was proposed before {named} came into force. Change a word of its text, and import it again."
