"""`flywheel skills` and `flywheel tools`: what the workers of delegation loops wrote for later ones.

Skills that runs of suites wrote are pieces of memory too, and are shown with their evidence.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from ..positions import moment_of
from ..queries.loops import (
    SkillAnswer,
    SkillList,
    ToolAnswer,
    ToolList,
    list_skills,
    list_tools,
    show_skill,
    show_tool,
)
from .output import (
    SHOWN,
    After,
    AsJson,
    AsOf,
    Limit,
    emit_json,
    none_of,
    open_project,
    print_facts,
    print_rows,
    say,
    say_more,
)
from .pieces import facts_of_record, group_of, print_record, uplifts_of
from .sources import Server, open_source, quote_name

if TYPE_CHECKING:
    from projections.engine.views import PostgresViews

    from ..house import House

skills = typer.Typer(help="Skills: list, show, import, export, pieces.", no_args_is_help=True)
skills.add_typer(group_of("skill"), name="pieces")
tools = typer.Typer(help="Tools: list, show.", no_args_is_help=True)

_WAY_OUT = "the workers of `flywheel delegate run` write some"


@skills.command("list")
def list_all_skills(
    limit: Limit = SHOWN, after: After = None, as_of: AsOf = None, server: Server = None, as_json: AsJson = False
) -> None:
    """List the latest version of each skill, by name, and how it stands as a piece of memory."""

    def read_log(house: House, views: PostgresViews) -> SkillList:
        return list_skills(views, moment_of(house.store, as_of, views.upto), after=after, limit=limit)

    with open_source(server, as_of) as source:
        page, following = source.pages(SkillList, "skills", "/v1/skills", read_log, after, limit)
    rows = msgspec.to_builtins(page)
    if not as_json:
        rows = [
            {**row, "memory": "; ".join(each.words for each in state.memory)}
            for row, state in zip(rows, page, strict=True)
        ]
    columns = ("skill", "version", "words", "line", "memory", "loop")
    print_rows(rows, columns, as_json=as_json, empty=none_of("skills", _WAY_OUT, after))
    say_more(following)


@skills.command("show")
def show_one_skill(
    skill: Annotated[str, typer.Argument(help="Its name.")],
    as_of: AsOf = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show one skill as Markdown, with the evidence for it as a piece of memory."""

    def read_log(house: House, views: PostgresViews) -> SkillAnswer:
        return show_skill(house.store, house.blobs, views, skill, moment_of(house.store, as_of, views.upto))

    with open_source(server, as_of) as source:
        found = source.read(SkillAnswer, f"/v1/skills/{quote_name(skill)}", read_log)
    if as_json:
        pieces = [facts_of_record(record) for record in found.pieces]
        emit_json({"skill": found.skill, "text": found.text, "pieces": pieces})
        return
    say(found.text)
    for record in found.pieces:  # the text was printed above
        say("")
        wordless = msgspec.structs.replace(record.report, content=None)
        print_record(msgspec.structs.replace(record, report=wordless), uplifts_of(record))


@skills.command("export")
def export(folder: Annotated[Path, typer.Argument(help="Where to write NAME.md.")], as_json: AsJson = False) -> None:
    """Write the latest version of every skill to a folder."""
    from ..history.skill_files import export_skills

    with open_project() as house:
        names = export_skills(house, folder)
    if as_json:
        emit_json({"folder": str(folder), "skills": names})
    else:
        say(f"{len(names)} skills are in {folder}")


@skills.command("import")
def import_(
    files: Annotated[list[Path], typer.Argument(help="Markdown files, one skill each.")], as_json: AsJson = False
) -> None:
    """Bring in skills, which later loops are offered. A file with a fault brings in nothing of any."""
    from ..history.skill_files import import_skills

    with open_project() as house:
        found = import_skills(house, files)
    if as_json:
        emit_json(found)
        return
    say(f"{len(found.fresh)} new, {len(found.known)} known already")
    for name in found.fresh:
        say(f"  {name}")


@tools.command("list")
def list_all_tools(
    limit: Limit = SHOWN, after: After = None, as_of: AsOf = None, server: Server = None, as_json: AsJson = False
) -> None:
    """List the latest version of each tool, by name."""
    with open_source(server, as_of) as source:
        page, following = source.pages(
            ToolList,
            "tools",
            "/v1/tools",
            lambda _house, views: list_tools(views, after=after, limit=limit),
            after,
            limit,
        )
    columns = ("tool", "version", "line", "worker", "loop")
    print_rows(msgspec.to_builtins(page), columns, as_json=as_json, empty=none_of("tools", _WAY_OUT, after))
    say_more(following)


@tools.command("show")
def show_one_tool(
    tool: Annotated[str, typer.Argument(help="Its name.")],
    as_of: AsOf = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show one tool: its schema and its code."""
    path = f"/v1/tools/{quote_name(tool)}"
    with open_source(server, as_of) as source:
        found = source.read(ToolAnswer, path, lambda house, views: show_tool(views, house.blobs, tool))
    if as_json:
        emit_json(found)
        return
    facts = msgspec.to_builtins(found.tool)
    print_facts([(name, facts[name]) for name in ("tool", "version", "loop", "worker", "line", "code_hash")])
    say("")
    say(found.definition["code"])
