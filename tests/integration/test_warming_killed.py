"""`flywheel run --loop slow` without a base, killed for real at every step of its warm-up: it ends as if undisturbed.

One history beside an undisturbed one. The command, its site, its training process and the database are the real ones.
The base model is so small and learns so little that it passes nothing: so each of its turns is made and measured.

Three kills are in every test run, seven in `make endure`. Seconds cost nothing in these projects, so that both
histories must give the same datasets and checkpoints to the last digit: see `make_time_free`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from api.controllers.warmup_next import WarmingCourse
from eventlog.events import (
    CheckpointSaved,
    CourseClosed,
    CourseOpened,
    DatasetFrozen,
    RunFinished,
    RunMissing,
    RunStarted,
    SweepPlanned,
    TrainingFailed,
    TrainingStarted,
    WarmupConfig,
)
from tests.admitted import admitted
from tests.coin import SITE, TASK
from tests.conftest import Database
from tests.killing import Kill, Project, make_time_free, nothing_is_left, project_on, the_log_is_whole
from trainer.tiny import Shape

pytestmark = [pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::FutureWarning")]

STEPS = WarmupConfig(steps=60, learning_rate="0.0001", rows_per_step=1)
"""So many that a process which is killed at its first step has not ended by then."""
WARMING = WarmingCourse(
    shape=Shape(vocabulary=300, hidden=32, layers=1, heads=2, key_heads=1, inner=48, longest=4096),
    demonstrated=8,
    measured=2,
    first=STEPS,
    further=STEPS,
    turns=2,
)

KILLS = (
    Kill("RunFinished", 2, f"run/{SITE}-shown-1__"),
    Kill("TrainingStarted", whom="trainer"),
    Kill("RunFinished", WARMING.measured + 1, f"run/{SITE}-measured-"),
)
"""In the demonstrations, in the first turn, and while the second one is measured."""

EVERY_KILL = (
    Kill("RunFinished", 2, f"run/{SITE}-shown-1__"),
    Kill("DatasetFrozen"),
    Kill("TrainingProgressed", whom="controller"),
    Kill("TrainingStarted", 2, whom="trainer"),
    Kill("CheckpointSaved"),
    Kill("RunFinished", 1, f"run/{SITE}-measured-"),
    Kill("RunFinished", 2 * WARMING.measured, f"run/{SITE}-measured-"),
)
"""One after the other. The last run that measures has ended before a base is taken."""


@pytest.mark.parametrize(
    ("kills", "attempts"),
    [
        pytest.param(
            KILLS, [1, 2, 1], id="three", marks=pytest.mark.costly("commands and trainers are real processes")
        ),
        pytest.param(EVERY_KILL, [1, 2, 3, 1], id="every", marks=pytest.mark.endure),
    ],
)
def test_a_warm_up_that_is_killed_ends_as_an_undisturbed_one_does(
    kills: Sequence[Kill], attempts: list[int], clone: Callable[[str], Database], tmp_path: Path
) -> None:
    warm, stages = tmp_path / "warm.json", tmp_path / "stages.json"
    warm.write_text(WARMING.model_dump_json())
    stages.write_text(json.dumps([{"algorithm": "sft", "steps": 1, "learning_rate": "0.1"}]))
    words = ["run", "--loop", "slow", "--json", "--site", SITE, "--task", TASK, "--warm-up", str(warm)]
    words += ["--stages", str(stages), "--seeds", "1", "--siblings", "2", "--max-parallel", "1"]
    with (
        project_on(clone("empty"), tmp_path / "undisturbed") as undisturbed,
        project_on(clone("empty"), tmp_path / "killed") as killed,
    ):
        for each in (undisturbed, killed):
            make_time_free(each.house.store)
            admitted(each.house.store, SITE)
        undisturbed.completed(undisturbed.begun(words))
        killed.driven(words, kills)

        assert finished(killed) == finished(undisturbed)
        attempts_are_told(killed, attempts)
        for each in (undisturbed, killed):
            nothing_is_repeated(each)
            nothing_is_left(each, each.events(CheckpointSaved)[0].base)


def finished(at: Project) -> list[tuple[object, ...]]:
    """The stages that were finished, in order, with the digests of what came of them."""
    told: list[tuple[object, ...]] = []
    for event in at.events():
        match event:
            case CourseOpened():
                told.append(("course", event.loop))
            case SweepPlanned():
                told.append(("sweep", event.sweep, event.model, tuple(spec.spec_id for spec in event.specs)))
            case DatasetFrozen():
                told.append(("dataset", event.dataset, event.upto))
            case CheckpointSaved():
                told.append(("checkpoint", event.checkpoint, event.base))
            case CourseClosed():
                told.append(("closed", event.why))
    return told


def nothing_is_repeated(at: Project) -> None:
    """One beginning and one ending of each run, one result of each stage, and a log that holds together."""
    sweeps = [event.sweep for event in at.events(SweepPlanned)]
    saved = at.events(CheckpointSaved)
    measured = [f"{SITE}-measured-{event.checkpoint[:12]}" for event in saved]
    assert sweeps == [f"{SITE}-shown-1", *measured, f"{SITE}-4"]
    assert [event.algorithm for event in saved] == ["warmup"] * WARMING.turns
    assert len({event.training for event in saved}) == WARMING.turns
    assert saved[1].base == saved[0].checkpoint
    assert len(at.events(DatasetFrozen)) == 1
    planned = Counter(spec.spec_id for event in at.events(SweepPlanned) for spec in event.specs)
    assert Counter(event.run for event in at.events(RunStarted)) == planned
    assert Counter(event.run for event in at.events(RunFinished, RunMissing)) == planned
    assert set(planned.values()) == {1}
    the_log_is_whole(at)


def attempts_are_told(at: Project, expected: list[int]) -> None:
    """A turn that was killed is begun again as another attempt; one whose process died has failed before that."""
    assert [event.attempt for event in at.events(TrainingStarted)] == expected
    assert [event.error for event in at.events(TrainingFailed)] == ["ProcessEnded"]
