"""`make fuzz-delegation`: hostile manager outputs and hostile tools; canaries tell whether one got out."""

from __future__ import annotations

import random
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer

from agents.delegation.tool_policy import ToolSpec, static_fault
from agents.executors.delegation.sandbox import ToolSandbox, choose_sandbox
from eventlog.events import ToolsConfig

from ..report import at_least, at_most, report
from .hostile import canary, count_decisions, count_ends, hostile_tool

_SLOW_EVERY = 100


def main(
    *,
    outputs: Annotated[int, typer.Option(min=1, help="Manager outputs.")] = 10_000,
    loops: Annotated[int, typer.Option(min=1, help="Whole loops that hear nothing but such outputs.")] = 500,
    tools: Annotated[int, typer.Option(min=1, help="Tools.")] = 2_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every draw.")] = 1,
) -> None:
    """Read so many outputs and run so many tools in the sandbox, whatever the static checks say of them."""
    began = time.perf_counter()
    decisions = count_decisions(seed, outputs)
    ends = count_ends(seed, loops)
    box = choose_sandbox()
    figures = {"outputs": float(outputs), "outputs_that_were_decisions": float(decisions), "loops": float(loops)}
    figures |= {"loops_crashed": float(ends["crashed"]), "loops_that_did_not_end": float(ends["open"])}
    left_out = {}
    if box.kind == "bubblewrap":
        refused, alive = _run_tools(box, seed, tools)
        figures |= {"tools": float(tools), "refused_by_static_checks": float(refused), "escapes": float(not alive)}
    else:
        left_out["tools"] = "bubblewrap cannot run here"
    figures["minutes"] = (time.perf_counter() - began) / 60
    targets = {"outputs": at_least(10_000), "tools": at_least(2_000), "escapes": at_most(0)}
    targets |= {"loops_crashed": at_most(0), "loops_that_did_not_end": at_most(0)}
    report("fuzz-delegation", figures, targets, left_out=left_out)


def _run_tools(box: ToolSandbox, seed: int, number: int) -> tuple[int, bool]:
    """How many tools the static checks refuse, and whether the canaries are alive after all of them ran."""
    draw = random.Random(seed)  # noqa: S311 not for secrets
    with tempfile.TemporaryDirectory() as folder, canary(Path(folder)) as found:
        codes = [(hostile_tool(draw, found, slow=n % _SLOW_EVERY == 0), n) for n in range(number)]
        with ThreadPoolExecutor(2) as pool:
            refused = sum(pool.map(lambda each: _run_one(box, *each), codes))
        return refused, found.is_alive


def _run_one(box: ToolSandbox, code: str, number: int) -> bool:
    """Run a tool; True if the static checks would have refused it."""
    box.call(code, {}, timeout_ms=200 if number % _SLOW_EVERY == 0 else 3_000, memory_mb=256)
    spec = ToolSpec(fqn="dynamic.hostile", code=code, parameters={})
    return static_fault(spec, ToolsConfig()) is not None


if __name__ == "__main__":
    typer.run(main)
