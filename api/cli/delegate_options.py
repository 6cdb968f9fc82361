"""Options of `flywheel delegate`: models, commands, ground truth, budget; and what a loop works with by them."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from agents.delegation.envelopes import safe_id
from agents.delegation.files import is_binary
from agents.delegation.tool_policy import RESERVED
from eventlog.errors import first_fault
from eventlog.events import CompletionConfig, LoopLimits, ToolsConfig

from ..errors import BadLoopBudget

if TYPE_CHECKING:
    from agents.executors.delegation.loop import LoopMeans
    from agents.executors.delegation.truth import GroundTruth

    from ..house import House

DIMENSIONS = {
    "loops": "max_loops",
    "workers": "max_total_workers",
    "tokens": "max_total_tokens",
    "seconds": "max_wall_time",
    "tool_calls": "max_tool_calls",
    "depth": "max_depth",
}


class Level(StrEnum):
    """How much a loop may do by itself."""

    A0 = "A0"
    A1 = "A1"
    A2 = "A2"
    A3 = "A3"
    A4 = "A4"


ModelOf = Annotated[
    str | None, typer.Option("--model", help="The manager's model at the configured endpoint [FLYWHEEL_MODEL].")
]
WorkerModel = Annotated[str | None, typer.Option(help="The workers' model [the manager's].")]
WorkerCommand = Annotated[
    str | None, typer.Option(help="A command as worker: the order as JSON on its input, a JSON object on its output.")
]
GraderOf = Annotated[
    str | None,
    typer.Option(
        "--grader",
        help='A command that judges a final result: JSON on its input, {"solved": true or false} on its output.',
    ),
]
ValidatorOf = Annotated[
    str | None,
    typer.Option(
        "--validator",
        help='A command that judges a worker\'s result: JSON on its input, {"confidence": 0 to 1} on its output.',
    ),
]
Weaker = Annotated[
    bool,
    typer.Option("--weaker-sandbox", help="Allow tools behind namespaces and seccomp alone if bubblewrap is missing."),
]
BudgetOf = Annotated[
    str | None,
    typer.Option(help=f"Limits such as loops=20,tokens=200000,seconds=600; of {', '.join(DIMENSIONS)}."),
]
NamespacesOf = Annotated[
    str | None,
    typer.Option(
        "--namespaces",
        help="Namespaces of tools, such as dynamic,fetch=network+compute; after = what it may import beyond the least: "
        "network, filesystem, compute [dynamic].",
    ),
]
OutputsOf = Annotated[
    list[str] | None,
    typer.Option("--output", help="A file that the result must have, such as report.md; can be given several times."),
]
SummaryFile = Annotated[Path | None, typer.Option(help="Write the rolling summary to this file as it changes.")]


def read_budget(given: str | None) -> LoopLimits:
    """Limits of a text such as `loops=20,tokens=1000`; the defaults where it names none. Raises BadLoopBudget."""
    found: dict[str, int] = {}
    for part in (given or "").split(","):
        name, _, value = part.strip().partition("=")
        if not part.strip():
            continue
        if name not in DIMENSIONS or not (value.isascii() and value.isdigit()) or len(value) > 12:  # noqa: PLR2004
            expected = f"whole numbers such as loops=20, of {', '.join(DIMENSIONS)}"
            raise BadLoopBudget(actual=part.strip(), expected=expected)
        found[DIMENSIONS[name]] = int(value)
    if found.get("max_depth", 0) > 10:  # noqa: PLR2004 levels, as the event says
        raise BadLoopBudget(actual=given, expected="a depth of at most 10")
    return LoopLimits(**found)


def read_namespaces(given: str | None) -> ToolsConfig:
    """Tools by a text such as `dynamic,fetch=network+compute`; the default without one. Raises BadParameter."""
    if given is None:
        return ToolsConfig()
    names: list[str] = []
    own: dict[str, tuple[str, ...]] = {}
    for part in filter(None, map(str.strip, given.split(","))):
        name, equals, granted = part.partition("=")
        names.append(name)
        if equals:
            own[name] = tuple(filter(None, granted.split("+")))
    facts = {"namespaces": tuple(dict.fromkeys(names)), "namespace_capabilities": own}
    try:
        found = ToolsConfig.model_validate(facts)
    except ValidationError as problem:
        raise typer.BadParameter(f"--namespaces: {first_fault(problem)}") from problem
    reserved = sorted(RESERVED.intersection(found.namespaces))
    if reserved or not found.namespaces:
        named = f"the namespace {reserved[0]} is reserved" if reserved else "no namespace"
        raise typer.BadParameter(f"--namespaces: {named}; expected names of your own")
    return found


def read_outputs(given: list[str]) -> CompletionConfig:
    """Gates of completions that require these files. Raises BadParameter for what is no name of a text file."""
    for name in given:
        if not name or safe_id(name) != name:
            raise typer.BadParameter(f"--output {name[:100]!r}: expected the name of a file without a folder")
        if is_binary(name):
            raise typer.BadParameter(
                f"--output {name[:100]!r}: a result holds text; expected such as report.md or data.csv"
            )
    return CompletionConfig(required_outputs=tuple(dict.fromkeys(given)))


@contextmanager
def loop_means(
    house: House,
    model: str | None,
    worker_model: str | None,
    worker_command: str | None,
    truth: GroundTruth,
    *,
    weaker: bool,
) -> Iterator[LoopMeans]:
    """Means of a loop: models at the configured endpoint, or a command as worker; the best sandbox there is."""
    from agents.executors.delegation.loop import LoopMeans
    from agents.executors.delegation.sandbox import choose_sandbox
    from agents.executors.delegation.workers import CommandWorker, ModelWorker, Worker

    from ..sweeps.models import agent_model

    with agent_model(house.settings, model) as manager:
        sandbox = choose_sandbox(weaker=weaker)
        if worker_command is not None:
            command: Worker = CommandWorker(command_words("--worker-command", worker_command))
            yield LoopMeans(manager, command, sandbox, truth, repairer=manager, critic=manager)
        elif worker_model is None or worker_model == model:
            yield LoopMeans(manager, ModelWorker(manager), sandbox, truth, repairer=manager, critic=manager)
        else:
            with agent_model(house.settings, worker_model) as working:
                yield LoopMeans(manager, ModelWorker(working), sandbox, truth, repairer=working, critic=manager)


def ground_truth(grader: str | None, validator: str | None) -> GroundTruth:
    """Ground truth by the commands of the options. Raises BadParameter for one that cannot be run."""
    from agents.executors.delegation.truth_commands import truth_of

    given = ("--grader", grader), ("--validator", validator)
    return truth_of(*(() if text is None else command_words(name, text) for name, text in given))


def command_words(option: str, given: str) -> tuple[str, ...]:
    """The words of a command. Raises BadParameter if it cannot be split, is empty, or its program is not there."""
    try:
        words = tuple(shlex.split(given))
    except ValueError as problem:
        raise typer.BadParameter(
            f"{option} {given[:100]!r}: {problem}; expected a command as a shell reads it"
        ) from None
    if not words:
        raise typer.BadParameter(f"{option} is empty; expected a command")
    if shutil.which(words[0]) is None:
        raise typer.BadParameter(
            f"{option}: there is no program {words[0][:100]!r}; expected one that can be run from here"
        )
    return words
