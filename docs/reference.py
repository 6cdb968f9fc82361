"""Reference pages that are made from the code: settings, commands, REST and events.

`make reference` writes the table of settings into docs/settings.md. The other pages exist only in the built site:
mkdocs calls `on_files` when it builds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from api.settings import Settings

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

    from api.house import House

PAGE = Path(__file__).parent / "settings.md"
BEGIN, END = "<!-- written by `make reference` -->", "<!-- end of what `make reference` writes -->"
MORE = {
    "archive": "archive.md",
    "prompt_bytes": "serving.md",
    "dataset_bytes": "rest.md#datasets",
    "trace_bytes": "traces.md",
    "embeddings": "fast-loop.md",
    "alpha_cap": "gate.md#alpha-and-challengers",
    "chromium": "executors.md",
    "keys": "blobs.md",
    "recovery_model": "fast-loop.md#asking-a-model",
    "model": "models.md",
    "model_tokenizer": "datasets.md",
    "model_gguf": "models.md#in-llamacpp",
    "remote_url": "executors.md#at-another-flywheel",
    "agent_seconds": "executors.md#an-agent-of-your-own",
    "record_site": "time.md#an-agent-of-your-own",
    "webhook_networks": "webhooks.md",
}
"""Where more is said of a setting."""


def render_settings() -> str:
    """The table of all settings, in the order of the model."""
    rows = "\n".join(_settings())
    return f"{BEGIN}\n\n| variable | default | meaning |\n|---|---|---|\n{rows}\n\n{END}"


def write_settings(page: Path = PAGE) -> None:
    """Replace the table in the page."""
    text = page.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    page.write_text(f"{before}{render_settings()}{rest.partition(END)[2]}", "utf-8")


def render_commands() -> str:
    """Every command with its help, as it prints it."""
    from typer.core import TyperGroup

    from api.cli.commands import COMMANDS, LazyCommand

    parts = ["# Commands", "What each command prints for `--help`."]
    for name, (where, line) in sorted(COMMANDS.items()):
        command = LazyCommand(name, where, line).command
        parts += [f"## flywheel {name}", _help(command, f"flywheel {name}")]
        if isinstance(command, TyperGroup):
            for word, below in sorted(command.commands.items()):
                parts += [f"### flywheel {name} {word}", _help(below, f"flywheel {name} {word}")]
    return "\n\n".join(parts)


def render_events() -> str:
    """Every event type with its fields, as JSON Schema."""
    from eventlog.events import EVENT_TYPES

    parts = [
        "# Events",
        "Every event type as JSON Schema. [The design](design.md) says who appends and who reads each.",
    ]
    for name, kind in sorted(EVENT_TYPES.items()):
        schema = json.dumps(kind.model_json_schema(), indent=1, ensure_ascii=False)
        parts += [
            f"## {name}",
            f"Version {kind.schema_version}. {(kind.__doc__ or '').strip()}",
            f"```json\n{schema}\n```",
        ]
    return "\n\n".join(parts)


def render_endpoints() -> str:
    """Every endpoint of REST with its parameters and answers."""
    from api.app import create_app

    paths: dict[str, Any] = create_app(cast("House", None)).openapi()["paths"]
    parts = [
        "# Endpoints",
        "Made from the OpenAPI document, which `/openapi.json` serves. [REST](rest.md) has examples.",
    ]
    for path, methods in sorted(paths.items()):
        for method, told in methods.items():
            parts += [f"## {method.upper()} {path}", f"**{told.get('summary', '')}** {told.get('description', '')}"]
            rows = [
                f"| `{each['name']}` | {each['in']} | {(each.get('description') or '').replace('|', '/')} |"
                for each in told.get("parameters", [])
            ]
            if rows:
                parts.append("\n".join(("| parameter | in | meaning |", "|---|---|---|", *rows)))
            answers = (
                f"| {code} | {answer['description'].replace('|', '/')} |" for code, answer in told["responses"].items()
            )
            parts.append("\n".join(("| status | meaning |", "|---|---|", *answers)))
    return "\n\n".join(parts)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made from the code. mkdocs calls it."""
    from mkdocs.structure.files import File

    for name, render in (("commands", render_commands), ("events", render_events), ("endpoints", render_endpoints)):
        files.append(File.generated(config, f"reference-{name}.md", content=render()))
    return files


def _help(command: Any, words: str) -> str:
    """The help of a command as plain text."""
    context = command.make_context(words, [], resilient_parsing=True)
    context.info_name = words
    return f"```text\n{command.get_help(context).strip()}\n```"


def _settings() -> Iterator[str]:
    for name, found in Settings.model_fields.items():
        more = f" ([{MORE[name].partition('.')[0]}]({MORE[name]}))" if name in MORE else ""
        choices = get_args(found.annotation) if get_origin(found.annotation) is Literal else ()
        one_of = f"; one of {', '.join(f'`{each}`' for each in choices)}" if choices else ""
        yield f"| `FLYWHEEL_{name.upper()}` | {_default(found)} | {found.description}{one_of}{more} |"


def _default(found: FieldInfo) -> str:
    value = found.default
    if value in (None, "", PydanticUndefined):
        return "unset"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    write_settings()
