"""Both loops and the gate on a small site that a grammar draws, each killed for real and finished by the same command.

The site comes in as a stranger's: by `env add` with a suite file, and by its probes. Seconds cost nothing in the log of
the gate: few instances are passed by both arms, so that a busy machine would decide about the cost.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from api.controllers.warmup_next import WarmingCourse
from api.history.disown import STREAM
from eventlog.events import (
    ChampionPointed,
    CheckpointSaved,
    CourseClosed,
    DatasetFrozen,
    EnvironmentAdmitted,
    EvaluationOpened,
    EventsDisowned,
    RunFinished,
    RunMissing,
    RunStarted,
    Step,
    SuiteSeeds,
    SweepPlanned,
    TrainingStarted,
    VerdictReached,
    WarmupConfig,
)
from eventlog.store import Append
from tests.conftest import Database
from tests.desks.grammar import DeskKind
from tests.desks.registering import registered_desk
from tests.desks.site import template_of
from tests.desks.words import CLINIC, PERMITS
from tests.killing import Kill, Project, make_time_free, nothing_is_left, project_on, the_log_is_whole
from tests.recomputing import every_verdict_recomputes
from trainer.tiny import Shape

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore::FutureWarning")]

DESK = DeskKind(CLINIC, ("sworn confirmation",))
RUN = ("run", "--site", DESK.words.site, "--seeds", "4", "--verdicts", "1")

KNOWN = DeskKind(PERMITS, ("missing prerequisite",))
"""A site whose suite knows what is in the way: demonstrations come from its plan."""

STEPS = WarmupConfig(steps=20, learning_rate="0.0001", rows_per_step=1)
WARMING = WarmingCourse(
    shape=Shape(vocabulary=300, hidden=32, layers=1, heads=2, key_heads=1, inner=48, longest=4096),
    demonstrated=4,
    measured=2,
    first=STEPS,
    further=STEPS,
    turns=1,
)


def release(project: Project) -> None:
    """Undo the quarantine of `champion back`, so that what was taken back can be judged once more."""
    quarantined = tuple(each.position for each in project.house.store.read(types=["MemoryQuarantined"]))
    assert quarantined
    project.house.store.append([Append(STREAM, (EventsDisowned(positions=quarantined, reason="a test"),), "test")])


def nothing_is_played_twice(project: Project) -> None:
    """One start of each run, and one ending."""
    ended = Counter(event.run for event in project.events(RunFinished, RunMissing))
    assert Counter(event.run for event in project.events(RunStarted)) == ended
    assert set(ended.values()) == {1}


@pytest.mark.costly("a course and an evaluation of real commands, each of them killed once")
def test_a_run_and_a_gate_run_on_a_generated_site_that_are_killed_go_on_and_judge_once(
    clone: Callable[[str], Database], tmp_path: Path
) -> None:
    with project_on(clone("empty"), tmp_path / "project") as project, registered_desk(project, DESK):
        make_time_free(project.house.store)
        assert len(project.events(EnvironmentAdmitted)) == 1
        project.driven(RUN, [Kill("RewriteProposed")])
        (promoted,) = project.events(VerdictReached)
        assert promoted.verdict.decision == "promote", promoted.verdict.reasons
        assert {event.suite for event in project.events(SweepPlanned)} == {f"{DESK.words.site}@1"}

        (first, champion) = project.events(ChampionPointed)
        assert champion.by == "gate"
        project.completed(project.begun(("champion", "back", "--yes", "--reason", "a test")))
        assert project.events(ChampionPointed)[-1].artifact == first.artifact
        release(project)
        judging = ("gate", "run", "--site", DESK.words.site, "--challenger", str(champion.artifact))
        project.driven(judging, [Kill("RunFinished", 7, "run/eval-2__")])
        assert [(each.evaluation, each.verdict.decision) for each in project.events(VerdictReached)] == [
            ("eval-1", "promote"),
            ("eval-2", "promote"),
        ]
        assert [event.evaluation for event in project.events(EvaluationOpened)] == ["eval-1", "eval-2"]
        assert project.events(ChampionPointed)[-1].artifact == champion.artifact
        nothing_is_played_twice(project)
        the_log_is_whole(project)
        assert every_verdict_recomputes(project.house) == 2


@pytest.mark.costly("a warm-up, its training process and a sweep of a model by real commands, killed once")
def test_a_slow_loop_on_a_generated_site_that_is_killed_learns_from_its_suites_plan_once(
    clone: Callable[[str], Database], tmp_path: Path
) -> None:
    *before, send = template_of(KNOWN).plan_steps
    box = KNOWN.words.prerequisite
    tick = Step(type="select_option", intent="agree where asked", label=box, value="checked", optional=True)
    warm, stages = tmp_path / "warm.json", tmp_path / "stages.json"
    warm.write_text(WARMING.model_dump_json())
    stages.write_text(json.dumps([{"algorithm": "sft", "steps": 1, "learning_rate": "0.1"}]))
    name = KNOWN.words.site
    words: tuple[str, ...] = ("run", "--loop", "slow", "--site", name, "--task", KNOWN.task, "--warm-up", str(warm))
    words += ("--stages", str(stages), "--seeds", "1", "--siblings", "2", "--max-parallel", "1")
    with (
        project_on(clone("empty"), tmp_path / "project") as project,
        registered_desk(project, KNOWN, (*before, tick, send), SuiteSeeds()),
    ):
        interrupted = project.driven(words, [Kill("TrainingStarted", whom="trainer")])
        assert interrupted
        (saved,) = project.events(CheckpointSaved)
        shown, measured, learning = project.events(SweepPlanned)
        assert [shown.sweep, measured.sweep] == [f"{name}-shown-1", f"{name}-measured-{saved.checkpoint[:12]}"]
        assert [event.rows for event in project.events(DatasetFrozen)] == [len(shown.specs)]
        assert [event.attempt for event in project.events(TrainingStarted)] == [1, 2]
        assert len(project.events(CourseClosed)) == 1
        assert learning.suite == f"{name}@1"
        nothing_is_played_twice(project)
        nothing_is_left(project, saved.base)
        the_log_is_whole(project)
