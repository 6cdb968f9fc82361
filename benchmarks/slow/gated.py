"""Evaluates a checkpoint at the real gate: a benchmark of sealed instances, with both arms at temperature 0."""

from __future__ import annotations

from dataclasses import replace

from agents.executors.by_weights import ByWeights
from agents.learning.memory import build_memory_artifact
from api.cli.output import TerminalReporter
from api.evaluations.evaluate import challenge, play_and_settle
from api.queries.champion import present_champion
from api.queries.facts import require
from eventlog.events import BenchmarkTemplate, Verdict
from gate.benchmark import freeze_benchmark
from gate.promote import freeze_into
from projections.verdicts import VERDICTS

from .arms import Workshop
from .effort import TASKS, by_address
from .policies import policy
from .training import Saved

SITE = "marketplace"


def judged(workshop: Workshop, saved: Saved) -> Verdict:
    """Verdict on a checkpoint against the warmed base, on the first site's sealed instances."""
    scene, house = workshop.scene, workshop.house
    plain = by_address(SITE, scene.instructions[SITE])
    task = BenchmarkTemplate(
        template_id=plain.template_id,
        cluster=plain.cluster,
        oracle_task_id=TASKS[SITE],
        instruction=plain.instruction,
        max_steps=plain.max_steps,
    )
    frozen = freeze_benchmark(f"{SITE}-sealed", SITE, [task], [], scene.effort.seeds.sealed, 1, challengers=1)
    freeze_into(house.store, frozen, "demo")
    artifact, blob = build_memory_artifact(house.views(), saved.digest)
    house.blobs.put([blob])
    models = {
        "base": workshop.host.base(),
        saved.digest: workshop.host.adapted_model(saved.digest, lambda _: saved.folder),
    }
    executor = ByWeights({weights: policy(scene, model) for weights, model in models.items()})
    course = replace(scene.course())
    evaluation = challenge(house, frozen, artifact, course.rules, executor)
    TerminalReporter().say(
        play_and_settle(house, scene.clients[SITE], evaluation, course, TerminalReporter(), executor)
    )
    TerminalReporter().say(f"champion: {present_champion(house.views()).name}")
    return require(require(house.views().get(VERDICTS, evaluation)).verdict_reached())
