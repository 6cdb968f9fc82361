"""`flywheel skills` and `flywheel tools`: what the workers of delegation loops wrote for later ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from ..queries.loops import list_skills, list_tools, show_skill, show_tool
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

skills = typer.Typer(help="Skills: list, show, import, export.", no_args_is_help=True)
tools = typer.Typer(help="Tools: list, show.", no_args_is_help=True)

_WAY_OUT = "the workers of `flywheel delegate run` write some"


@skills.command("list")
def list_all_skills(limit: Limit = SHOWN, after: After = None, as_of: AsOf = None, as_json: AsJson = False) -> None:
    """List the latest version of each skill, by name."""
    with open_project() as house:
        page, following = list_skills(house.views_at(as_of), after=after, limit=limit)
    _print_page(
        page,
        ("skill", "version", "words", "line", "loop"),
        following,
        as_json=as_json,
        empty=none_of("skills", _WAY_OUT, after),
    )


@skills.command("show")
def show_one_skill(
    skill: Annotated[str, typer.Argument(help="Its name.")], as_of: AsOf = None, as_json: AsJson = False
) -> None:
    """Show one skill as Markdown."""
    with open_project() as house:
        found = show_skill(house.views_at(as_of), house.blobs, skill)
    if as_json:
        emit_json(found)
    else:
        say(found.text)


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
def list_all_tools(limit: Limit = SHOWN, after: After = None, as_of: AsOf = None, as_json: AsJson = False) -> None:
    """List the latest version of each tool, by name."""
    with open_project() as house:
        page, following = list_tools(house.views_at(as_of), after=after, limit=limit)
    _print_page(
        page,
        ("tool", "version", "line", "worker", "loop"),
        following,
        as_json=as_json,
        empty=none_of("tools", _WAY_OUT, after),
    )


@tools.command("show")
def show_one_tool(
    tool: Annotated[str, typer.Argument(help="Its name.")], as_of: AsOf = None, as_json: AsJson = False
) -> None:
    """Show one tool: its schema and its code."""
    with open_project() as house:
        found = show_tool(house.views_at(as_of), house.blobs, tool)
    if as_json:
        emit_json(found)
        return
    facts = msgspec.to_builtins(found.tool)
    print_facts([(name, facts[name]) for name in ("tool", "version", "loop", "worker", "line", "code_hash")])
    say("")
    say(found.definition["code"])


def _print_page(
    page: dict[str, Any], columns: tuple[str, ...], following: str | None, *, as_json: bool, empty: str
) -> None:
    print_rows([msgspec.to_builtins(each) for each in page.values()], columns, as_json=as_json, empty=empty)
    say_more(following)
