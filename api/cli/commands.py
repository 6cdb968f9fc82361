"""All commands by name, with their module and help line. A module is imported when its command is called."""

from __future__ import annotations

import gc
from functools import cached_property
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.completion import completion_init  # type: ignore[attr-defined]  # it has no other public place
from typer.core import TyperCommand, TyperGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("run:run", "Learn from runs, in rounds, until the budget is spent."),
    "serve": ("serve:serve", "Serve the dashboard and the REST API until interrupted."),
    "deploy": ("deploy:deploy", "Write a Modal app or a Truss that serves the model."),
    "ui": ("ui:ui", "Open the dashboard in a browser."),
    "mcp": ("mcp:mcp", "Serve tools that read the log to an agent, over standard input and output."),
    "worker": ("worker:worker", "Play queued rollouts, alone or with other workers."),
    "replay": (
        "replay:replay",
        "Recompute the projections from the log and compare them.",
    ),
    "diff": (
        "diff:diff",
        "List what changed between two positions of the log.",
    ),
    "what-if": (
        "whatif:what_if",
        "Report what another rule or reward would have decided.",
    ),
    "import": (
        "import_files:import_command",
        "Record traces (OTLP in JSON) and chat logs as runs from outside.",
    ),
    "outcomes": (
        "outcomes:outcomes",
        "Count how runs went: by sweep, by template, with a candidate (treated) or without.",
    ),
    "doctor": (
        "doctor:doctor",
        "Check the installation, the database and the log.",
    ),
    "completion": ("completion:completion", "Print the script by which a shell completes commands and options."),
    "erase": ("erase:erase", "Destroy the key and the bytes of a subject, and record that it was done."),
    "delegate": ("delegate:app", "Delegation loops: run, resume, refine, answer, list, show, export, replay."),
    "skills": ("skills:skills", "Skills: list, show, import, export, pieces."),
    "tools": ("skills:tools", "Tools: list, show."),
    "train": ("train:train", "Train a model on a dataset and save the checkpoint."),
    "db": ("db:app", "The database: up, down, status, migrate."),
    "log": ("log:app", "The log: head, tail, verify, sign, inspect, disown, archive, export, import."),
    "rollout": ("rollout:app", "Rollouts: sweep, biased, status."),
    "runs": ("runs:app", "Runs: list, show, replay, grade, regrade, judges, withdraw, abandon."),
    "rewrites": ("rewrites:app", "Rewrites: list, show."),
    "hints": ("pieces:hints", "Hints: list, show."),
    "exemplars": ("pieces:exemplars", "Exemplars: list, show."),
    "curriculum": ("pieces:curriculum", "Curriculum: list, show."),
    "recipes": ("recipes:app", "Recipes: list, show."),
    "instructions": ("pieces:instructions", "Instructions: list, show."),
    "failures": ("failures:app", "Failures: list the clusters."),
    "substrates": ("substrates:app", "Substrates: list, show."),
    "env": ("env:app", "Environments: add, list, probe, reset, observe, serve."),
    "suite": ("suite:app", "Suites: new, check, add, list, show."),
    "dataset": ("dataset:app", "Datasets: build, slice, list, show, export, verify, card."),
    "base": ("base:app", "Base models: add, list, show, export."),
    "checkpoint": ("checkpoint:app", "Checkpoints: list, show, lineage, export, publish, verify."),
    "benchmark": ("benchmark:app", "Benchmarks: freeze, refresh, list, show."),
    "gate": ("gate:app", "The gate: run, list, ledger, explain, verify."),
    "blobs": ("blobs:app", "Blobs: list, verify, sweep."),
    "champion": ("champion:app", "The champion: show, history, point, back, mirror."),
    "artifact": ("artifact:app", "Artifacts: show."),
    "webhook": ("webhook:app", "Webhooks: add, list, remove."),
    "token": ("token:app", "Tokens: issue, list, revoke."),
}
"""`module:attribute` below `api.cli`, and the first sentence of the command's help."""


SERVED: dict[str, str] = {
    "champion show": "/v1/champion",
    "champion history": "/v1/champion/history",
    "runs list": "/v1/runs",
    "runs show": "/v1/runs/{run}",
    "rewrites list": "/v1/reports/rewrites",
    "rewrites show": "/v1/reports/rewrites/{piece}",
    "hints list": "/v1/reports/hints",
    "hints show": "/v1/reports/hints/{piece}",
    "exemplars list": "/v1/reports/exemplars",
    "exemplars show": "/v1/reports/exemplars/{piece}",
    "curriculum list": "/v1/reports/curriculum",
    "curriculum show": "/v1/reports/curriculum/{piece}",
    "recipes list": "/v1/reports/recipes",
    "recipes show": "/v1/reports/recipes/{piece}",
    "instructions list": "/v1/reports/instructions",
    "instructions show": "/v1/reports/instructions/{piece}",
    "skills pieces list": "/v1/reports/skill_pieces",
    "skills pieces show": "/v1/reports/skill_pieces/{piece}",
    "failures list": "/v1/failure-clusters",
    "substrates list": "/v1/substrates",
    "substrates show": "/v1/substrates/{cluster}",
    "env list": "/v1/environments",
    "dataset list": "/v1/datasets",
    "dataset show": "/v1/datasets/{digest}",
    "dataset card": "/v1/datasets/{digest}/card",
    "dataset export": "/v1/datasets/{digest}/rows",
    "checkpoint list": "/v1/checkpoints",
    "checkpoint show": "/v1/checkpoints/{digest}",
    "checkpoint lineage": "/v1/checkpoints/{digest}/lineage",
    "gate list": "/v1/verdicts",
    "gate explain": "/v1/verdicts/{evaluation}",
    "gate ledger": "/v1/benchmarks/{benchmark}/ledger",
    "outcomes": "/v1/outcomes",
    "diff": "/v1/diff",
    "log tail": "/v1/events",
    "log head": "/v1/log",
    "log stats": "/v1/log/counts",
    "log inspect": "/v1/log/forged",
    "rollout status": "/v1/sweeps",
    "benchmark list": "/v1/benchmarks",
    "benchmark show": "/v1/benchmarks/{benchmark}",
    "base list": "/v1/bases",
    "base show": "/v1/bases/{base}",
    "suite list": "/v1/suites",
    "suite show": "/v1/suites/{suite}",
    "delegate list": "/v1/loops",
    "delegate show": "/v1/loops/{loop}",
    "skills list": "/v1/skills",
    "skills show": "/v1/skills/{skill}",
    "tools list": "/v1/tools",
    "tools show": "/v1/tools/{tool}",
    "artifact show": "/v1/artifacts/{name}",
    "blobs list": "/v1/blobs",
    "webhook list": "/v1/webhooks",
    "token list": "/v1/tokens",
}
"""The commands that take --server, and the path whose answer each prints."""

UNSERVED: dict[str, tuple[str, ...]] = {
    "it writes to the log": (
        *("run", "worker", "import", "erase", "train"),
        *("delegate run", "delegate resume", "delegate refine", "delegate answer"),
        *("skills import", "recipes import", "log import", "log disown", "log archive"),
        *("rollout sweep", "rollout biased", "runs withdraw", "runs abandon", "runs grade", "runs regrade"),
        *("env add", "env probe", "suite add", "base add", "dataset build", "dataset slice", "checkpoint publish"),
        *("benchmark freeze", "benchmark refresh", "gate run", "champion point", "champion back", "champion mirror"),
        *("webhook add", "webhook remove", "token issue", "token revoke", "blobs sweep"),
    ),
    "it is about this machine or a site": (
        *("serve", "deploy", "ui", "mcp", "doctor", "completion", "db up", "db down", "db migrate", "db status"),
        *("env reset", "env observe", "env serve", "suite new", "suite check"),
    ),
    "it computes again from every event or byte": (
        *("replay", "what-if", "delegate replay", "runs replay", "runs judges"),
        *("log verify", "blobs verify", "dataset verify", "checkpoint verify", "gate verify"),
    ),
    "it writes what only the log's own machine has: files, keys and weights": (
        *("log export", "log sign", "skills export", "recipes export", "base export", "checkpoint export"),
        *("delegate export",),
    ),
}
"""The commands that take no --server, by why."""


def why_unserved(words: str) -> str | None:
    """Why a command takes no --server; None if it takes it, or is a group or unknown."""
    return next((why for why, commands in UNSERVED.items() if words in commands), None)


class LazyCommand(TyperCommand):
    """A command or group that is imported when it is called. Until then it has only a name and a help line."""

    def __init__(self, name: str, where: str, line: str) -> None:
        super().__init__(name, help=line)
        self.where = where

    @cached_property
    def command(self) -> TyperCommand | TyperGroup:
        """The imported command."""
        module, _, attribute = self.where.partition(":")
        defined = getattr(import_module(f"{__package__}.{module}"), attribute)
        around = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        if isinstance(defined, typer.Typer):
            around.add_typer(defined, name=self.name)
        else:
            around.command(self.name)(defined)
        found: TyperCommand | TyperGroup = typer.main.get_group(around).commands[str(self.name)]  # type: ignore[assignment]
        return found

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the arguments with the imported command; the context belongs to it."""
        command = self.command
        if not gc.isenabled():  # since the process began
            gc.freeze()
            gc.enable()
        return command.make_context(info_name, args, parent, **extra)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """What the imported command completes to."""
        return self.command.shell_complete(ctx, incomplete)


def _options() -> list[Any]:
    """The options of `flywheel` itself."""
    around = typer.Typer(add_completion=False, rich_markup_mode=None)

    @around.callback()
    def options(
        version: Annotated[
            bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
        ] = False,
    ) -> None: ...

    return typer.main.get_group(around).params


def _print_version(asked: bool) -> None:  # noqa: FBT001 the parser calls it so
    if asked:
        from importlib.metadata import version

        typer.echo(f"flywheel {version('flywheel')}")
        raise typer.Exit


def every_command() -> TyperGroup:
    """The command `flywheel` with all subcommands, none of them imported yet."""
    completion_init()  # a shell that completes asks for the same command, by a variable
    return TyperGroup(
        name="flywheel",
        help="Make agents better from their own runs, and keep the evidence: run, judge, promote, replay, roll back.",
        epilog="docs/glossary.md explains the terms. `flywheel COMMAND --help` shows the options of a command.",
        no_args_is_help=True,
        rich_markup_mode=None,
        params=_options(),
        commands={name: LazyCommand(name, where, line) for name, (where, line) in COMMANDS.items()},
    )
