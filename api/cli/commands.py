"""Every command by its name: where it is defined, and its line in the help. A call of it imports its module."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("run:run", "Go round the loop until the budget is spent or nothing is left to try."),
    "serve": ("serve:serve", "Serve the REST API until interrupted."),
    "worker": ("worker:worker", "Play planned rollouts from the queue, any number of processes together."),
    "replay": (
        "replay:replay",
        "Fold every projection from the log beside the live one and compare their digests.",
    ),
    "diff": (
        "diff:diff",
        "Say what changed in meaning between two positions: champion, rewrites, runs, failures, verdicts, costs.",
    ),
    "what-if": (
        "whatif:what_if",
        "Fold history again under another rule or reward, beside the truth, and say what would differ.",
    ),
    "outcomes": (
        "outcomes:outcomes",
        "Count how runs went: by sweep, by template, with a candidate (treated) or without.",
    ),
    "doctor": (
        "doctor:doctor",
        "Check Python, home, port, database, schema, log, projections and token (FLYWHEEL_TOKEN); exit 1 if one fails.",
    ),
    "erase": ("erase:erase", "Destroy the key and the bytes of a subject, and record that it was done."),
    "train": ("train:train", "Train on a dataset and save the checkpoint."),
    "db": ("db:app", "The database: start, stop, look, migrate."),
    "log": ("log:app", "The log: head, tail, verify, sign, archive, export, import."),
    "rollout": ("rollout:app", "Rollouts: sweep, biased, status."),
    "runs": ("runs:app", "Runs: list, show, replay, grade, regrade, judges, withdraw."),
    "rewrites": ("rewrites:app", "Rewrites: list, show."),
    "hints": ("pieces:hints", "Hints: list, show."),
    "exemplars": ("pieces:exemplars", "Exemplars: list, show."),
    "curriculum": ("pieces:curriculum", "Curriculum: list, show."),
    "recipes": ("recipes:app", "Recipes: list, show."),
    "failures": ("failures:app", "Failures: list the clusters."),
    "substrates": ("substrates:app", "Substrates: list, show."),
    "env": ("env:app", "Environments: list, probe, reset, observe, serve."),
    "dataset": ("dataset:app", "Datasets: build, slice, list, show, export, verify, card."),
    "checkpoint": ("checkpoint:app", "Checkpoints: list, show, lineage, export, publish, verify."),
    "benchmark": ("benchmark:app", "Benchmarks: freeze, refresh, list, show."),
    "gate": ("gate:app", "The gate: run, list, ledger, explain, verify."),
    "blobs": ("blobs:app", "Blobs: list, verify, sweep."),
    "champion": ("champion:app", "The champion: show, history, point, back."),
    "artifact": ("artifact:app", "Artifacts: show."),
    "token": ("token:app", "Tokens: issue, list, revoke."),
}
"""`module:attribute` below `api.cli`, and the first sentence of the command's own help."""


class LazyCommand(TyperCommand):
    """A command or group that is imported when it is called. Until then it is its name and its line in the help."""

    def __init__(self, name: str, where: str, line: str) -> None:
        super().__init__(name, help=line)
        self.where = where

    @cached_property
    def command(self) -> TyperCommand | TyperGroup:
        """The command itself, imported."""
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
        """Parse the words of the imported command, which the context then belongs to."""
        return self.command.make_context(info_name, args, parent, **extra)


def every_command() -> TyperGroup:
    """The command `flywheel` with everything below it, none of it imported yet."""
    return TyperGroup(
        name="flywheel",
        help="Make agents better from their own runs, and prove it: run, replay, judge, promote, roll back.",
        epilog="The words are explained in docs/glossary.md.",
        no_args_is_help=True,
        rich_markup_mode=None,
        commands={name: LazyCommand(name, where, line) for name, (where, line) in COMMANDS.items()},
    )
