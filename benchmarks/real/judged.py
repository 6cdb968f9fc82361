"""The best checkpoint at the real gate, and then served as the champion behind the capture proxy."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

from pydantic import SecretStr

from agents.executors.by_weights import ByWeights
from agents.learning.memory import build_memory_artifact
from agents.models.openai import OpenAI, OpenAISettings
from agents.models.wire import Patience
from api.cli.output import TerminalReporter
from api.course import Course
from api.evaluations.benchmarks import renew
from api.evaluations.evaluate import challenge, play_and_settle
from api.queries.facts import require
from api.sweeps.plan import site_templates
from eventlog.events import BenchmarkFrozen, BenchmarkTemplate, Verdict
from gate.benchmark import freeze_benchmark
from gate.promote import freeze_into
from gate.renewal import newest_successor
from projections.benchmarks import BENCHMARKS
from projections.verdicts import VERDICTS

from .arms import Arm, Workshop
from .effort import TRAINED
from .stage import ACTOR, PROJECT, success

BENCHMARK: Final = "sums-sealed-{}"
"""Name of the benchmark, with its number of sealed instances."""

ASKED: Final = tuple(range(31_000, 31_020))
"""Seeds of the questions that the served champion is asked through the proxy; nothing is trained or chosen by them."""

_SERVING: Final = re.compile(r"Serving on (http://[0-9.]+:[0-9]+)")
_FLYWHEEL: Final = (sys.executable, "-c", "from api.cli.main import main; main()")


def judge_at_gate(workshop: Workshop, arm: Arm) -> Verdict:
    """Verdict on a checkpoint against the base, on sealed instances of the trained task, greedily. Raises Paused."""
    stage, house = workshop.stage, workshop.stage.house
    reached = [
        state.verdict_reached()
        for state in house.views().find(VERDICTS).values()
        if state.decision is not None and any(each.weights == arm.state.checkpoint for each in state.artifacts())
    ]
    if reached:
        return require(reached[0])
    stage.pause_if_late()
    placed = stage.tasks[TRAINED]
    frozen = _benchmark(workshop)
    artifact, blob = build_memory_artifact(house.views(), arm.state.checkpoint)
    house.blobs.put([blob])
    policies = {
        "base": stage.policy(TRAINED, workshop.host.base()),
        **workshop.executor(TRAINED, arm.state.checkpoint).policies,
    }
    course, executor = Course(max_parallel=stage.effort.at_once), ByWeights(policies)
    evaluation = challenge(house, frozen, artifact, course.rules, executor)
    reporter = TerminalReporter()
    reporter.say(play_and_settle(house, placed.environment, evaluation, course, reporter, executor))
    return require(require(house.views().get(VERDICTS, evaluation)).verdict_reached())


def _benchmark(workshop: Workshop) -> BenchmarkFrozen:
    """The benchmark of the trained task, frozen at the first call; its successor once it has judged a checkpoint."""
    stage, effort = workshop.stage, workshop.stage.effort
    name = newest_successor(stage.house.views().find(BENCHMARKS), BENCHMARK.format(effort.sealed))
    if (state := stage.house.views().get(BENCHMARKS, name)) is not None:
        verdicts = stage.house.views().find(VERDICTS).values()
        has_judged = any(each.benchmark == name and each.decision in {"promote", "hold"} for each in verdicts)
        return renew(stage.house, state.frozen_event(), ACTOR, rng_seed=1) if has_judged else state.frozen_event()
    (plain,) = site_templates(stage.tasks[TRAINED].environment)
    task = BenchmarkTemplate(
        template_id=plain.template_id,
        cluster=plain.cluster,
        oracle_task_id=plain.oracle_task_id,
        instruction=plain.instruction,
        max_steps=plain.max_steps,
    )
    visible, sealed = range(9_000, 9_000 + effort.visible), range(10_000, 10_000 + effort.sealed)
    frozen = freeze_benchmark(name, TRAINED, [task], visible, sealed, 1, challengers=1)
    freeze_into(stage.house.store, frozen, ACTOR)
    return frozen


def ask_champion(workshop: Workshop) -> float:
    """Success of the champion behind `flywheel serve`, asked through the capture proxy, on fresh questions."""
    stage = workshop.stage
    with _served_champion(workshop) as settings, closing(OpenAI(settings, Patience(timeout_s=300.0, tries=1))) as model:
        executor = stage.policy(TRAINED, model)
        return success(stage.play(f"served-{secrets.token_hex(4)}", TRAINED, executor, ASKED))


@contextmanager
def _served_champion(workshop: Workshop) -> Iterator[OpenAISettings]:
    """`flywheel serve --model` in a process of its own on this log, and how its champion is reached."""
    key = _flywheel(workshop, "token", "issue", f"demo-{secrets.token_hex(4)}").split()[-1]
    command = (*_FLYWHEEL, "serve", "--port", "0", "--model", f"transformers:{workshop.host.folder.path}")
    environment = _environment(workshop)
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = _address_of(process)
            name = f"ext-demo-{secrets.token_hex(4)}"
            yield OpenAISettings(
                model="champion", base_url=f"{address}/{name}/v1", api_key=SecretStr(key), offers_logprobs=False
            )
        finally:
            process.terminate()


def _address_of(process: subprocess.Popen[str]) -> str:
    """The address that the server prints once it listens. Raises RuntimeError if it ends before that."""
    for line in process.stdout or ():
        if (found := _SERVING.search(line)) is not None:
            return found[1]
    raise RuntimeError("flywheel serve ended before it listened; its reason is above")


def _flywheel(workshop: Workshop, *arguments: str) -> str:
    """What a command prints on the log of the demonstration."""
    command = (*_FLYWHEEL, *arguments)
    return subprocess.run(command, env=_environment(workshop), check=True, capture_output=True, text=True).stdout


def _environment(workshop: Workshop) -> dict[str, str]:
    home = str(workshop.stage.house.settings.home)
    return {**os.environ, "FLYWHEEL_HOME": home, "FLYWHEEL_PROJECT": PROJECT}
