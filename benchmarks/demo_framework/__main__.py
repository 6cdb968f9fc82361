"""An agent of a public framework learns: from its first sweep to a verdict of the gate, by commands.

The framework is in an environment of its own, and the agent is the one on the page of this benchmark; the log holds
its digest, the same in both arms. It reads no advice, so the endpoint of its model tells it (`--advice proxy`). The
model is scripted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from benchmarks.demo_sites import interval
from benchmarks.log.server import Server, own_server
from benchmarks.report import at_least, report
from eventlog.events import EvaluationOpened, ModelCalled, RewardGraded, RunStarted, SweepPlanned, VerdictReached
from eventlog.postgres import PostgresStore
from tests.model_server import model_server
from tests.own_agent import model_settings
from tests.own_site import TOKEN, blocks, serve_own_site

from .model import choose_tool

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "benchmarks" / "framework.md"
TASKS: Final = """
name = "errands"
environment = "shop"

[seeds]
training = "0-999"
sealed = "10000-10039"

[[tasks]]
id = "shop.buy"
"""


KINDS: Final = ("SweepPlanned", "EvaluationOpened", "RunStarted", "RewardGraded", "ModelCalled", "VerdictReached")


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures with their intervals, and the agents and verdicts of the log."""

    figures: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    said: str


def main(
    *,
    python: Annotated[Path, typer.Option(help="Python of an environment with requirements/framework.txt.")],
    write: Annotated[bool, typer.Option("--write", help=f"Also write docs/benchmarks/{PAGE.name}.")] = False,
) -> None:
    """Let the shopper learn on the shop of the tutorial, and print what the gate measured."""
    began = time.perf_counter()
    with (
        tempfile.TemporaryDirectory(prefix="flywheel-framework-") as folder,
        own_server() as server,
        model_server(choose_tool) as model,
    ):
        place = Path(folder)
        server.project("framework")
        (place / "shopper.py").write_text(blocks("python", PAGE)[0], "utf-8")
        (place / "tasks.toml").write_text(TASKS, "utf-8")
        with serve_own_site(place) as shop:
            variables = {
                "FLYWHEEL_DATABASE_URL": server.app_url,
                "FLYWHEEL_OWNER_URL": server.owner_url,
                "FLYWHEEL_PROJECT": "framework",
                TOKEN: shop.token,
                **model_settings(model.url),
            }
            run = _Commands(place, {**os.environ, **variables})
            run("env", "add", "shop", *shop.place, "--suite", "tasks.toml")
            run("env", "probe", "shop")
            named = ("--agent", f"command:{python.absolute()} shopper.py", "--advice", "proxy")
            print(run("run", "--site", "shop", *named, "--seeds", "6", "--verdicts", "1"))
            print(run("gate", "explain", "eval-1"))
        found = _measure(server)
    figures = {**found.figures, "minutes": (time.perf_counter() - began) / 60}
    note = f"{_version(python)}; the one agent of all runs and its verdict: `{found.said}`."
    page = PAGE if write else None
    report("demo-framework", figures, {"after": at_least(0.9)}, intervals=found.intervals, page=page, note=note)


def _measure(server: Server) -> Measured:
    """What the log holds of the runs of learning and of both arms."""
    engine = server.engine("framework")
    try:
        found = [each.event for each in PostgresStore(engine).read(types=KINDS)]
    finally:
        engine.dispose()
    arms = {each.run: each.arm.arm for each in found if isinstance(each, RunStarted) and each.arm}
    passed = {each.run: each.passed for each in found if isinstance(each, RewardGraded)}
    agents = {each.executor for each in found if isinstance(each, EvaluationOpened | SweepPlanned)}
    decision = [each.verdict.decision for each in found if isinstance(each, VerdictReached)]
    figures, spans = {"runs that learned": float(len(passed) - len(arms))}, dict[str, tuple[float, float]]()
    for name, arm in (("before", "champion"), ("after", "challenger")):
        own = [passed[run] for run, side in arms.items() if side == arm and run in passed]
        figures[f"{name}, runs"], figures[name] = float(len(own)), sum(own) / len(own)
        spans[name] = interval(sum(own), len(own))
    figures["model calls"] = float(sum(isinstance(each, ModelCalled) for each in found))
    return Measured(figures, spans, f"{', '.join(sorted(map(str, agents)))}: {', '.join(decision) or 'no verdict'}")


class _Commands:
    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        self.folder, self.variables = folder, variables

    def __call__(self, *words: str) -> str:
        """What a command printed. Raises CalledProcessError."""
        command = [sys.executable, "-c", "from api.cli.main import main; main()", *words]
        own = {**self.variables, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=own, cwd=self.folder, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout


def _version(python: Path) -> str:
    code = "from importlib.metadata import version; print('pydantic-ai', version('pydantic-ai-slim'))"
    return subprocess.run([python, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    typer.run(main)
