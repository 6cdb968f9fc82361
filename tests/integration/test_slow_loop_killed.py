"""`flywheel run --loop slow` killed for real at every stage of its rounds: it ends as if nobody had touched it.

One history beside an undisturbed one. The command, its site, its training process and the database are the real ones;
the base model is a tiny one that was warmed up on one task.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agents.envs.client import EnvClient
from agents.envs.provider import local_site
from eventlog.chain import GENESIS, verified
from eventlog.events import (
    BenchmarkFrozen,
    ChampionPointed,
    CheckpointSaved,
    DatasetFrozen,
    EvaluationOpened,
    Rules,
    RunFinished,
    RunMissing,
    SweepPlanned,
    TrainingFailed,
    TrainingStarted,
    VerdictReached,
)
from eventlog.store import START
from gate.promote import freeze_into
from projections.compare import compare
from tests.admitted import admitted
from tests.coin import SITE, TASK, make_coin, smallest_benchmark
from tests.conftest import Database
from tests.killing import Kill, Project, has_ended, project_on
from tests.recomputing import every_verdict_recomputes
from trainer.bases import Base

pytestmark = [pytest.mark.timeout(1800), pytest.mark.filterwarnings("ignore::FutureWarning")]

STAGES = (
    {"algorithm": "sft", "steps": 6, "learning_rate": "0.005", "rows_per_step": 4},
    {"algorithm": "grpo", "steps": 2, "learning_rate": "0.001", "groups_per_step": 2},
)

ARMS = 2 * (1 + Rules().min_pairs)
KILLS = (
    Kill("RunFinished", 3, f"run/{SITE}-1__"),
    Kill("DatasetFrozen"),
    Kill("TrainingStarted", whom="controller"),
    Kill("TrainingProgressed", whom="trainer"),
    Kill("CheckpointSaved"),
    Kill("EvaluationOpened"),
    Kill("RunFinished", 20, "run/eval-1__"),
    Kill("RunFinished", ARMS, "run/eval-1__"),
    Kill("SweepPlanned", 2),
    Kill("TrainingStarted", 1, "training/grpo-"),
)
"""One after the other. The last arm's run has ended before the verdict is reached."""


@pytest.fixture(scope="module")
def client() -> Iterator[EnvClient]:
    with local_site(SITE) as site, EnvClient(site.admin_url, site.admin_token) as opened:
        yield opened


@pytest.fixture(scope="module")
def base(client: EnvClient, tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_coin(tmp_path_factory.mktemp("bases"), client)


@pytest.fixture
def project(clone: Callable[[str], Database], client: EnvClient, tmp_path: Path) -> Iterator[Callable[[str], Project]]:
    """A function that makes a project of this name. What is left of its processes is killed at the end."""
    with ExitStack() as stack:

        def make(name: str) -> Project:
            made = stack.enter_context(project_on(clone("empty"), tmp_path / name))
            admitted(made.house.store, SITE)
            freeze_into(made.house.store, smallest_benchmark(client), "test")
            return made

        yield make


@pytest.fixture
def words(base: Base, tmp_path: Path) -> tuple[str, ...]:
    """The slow loop on the command line: runs one after the other, so that nothing but kills disturbs their order."""
    stages = tmp_path / "stages.json"
    stages.write_text(json.dumps(STAGES))
    sizes = ("--seeds", "8", "--siblings", "4", "--stages", str(stages), "--max-parallel", "1")
    return ("run", "--loop", "slow", "--json", "--site", SITE, "--task", TASK, "--base", str(base.path), *sizes)


def test_a_loop_killed_at_every_stage_ends_as_an_undisturbed_one_does(
    project: Callable[[str], Project], words: tuple[str, ...]
) -> None:
    undisturbed, killed = project("undisturbed"), project("killed")
    undisturbed.completed(undisturbed.begun(words))
    child = killed.begun(words)
    for kill in KILLS:
        killed.wait(kill, child)
        if killed.strike(kill, child):
            child = killed.begun(words)
    killed.completed(child)

    assert finished(killed) == finished(undisturbed)
    nothing_is_repeated(undisturbed)
    nothing_is_repeated(killed)
    nothing_is_left(killed)
    attempts_are_told(killed)
    checkpoints_are_the_same(undisturbed, killed, str(words[words.index("--base") + 1]))


def events(at: Project) -> list[Any]:
    """All events of a log, in order."""
    return [recorded.event for recorded in at.house.store.read()]


def of_type(at: Project, *types: type) -> list[Any]:
    """Its events of some types, in order."""
    return [event for event in events(at) if isinstance(event, types)]


def finished(at: Project) -> list[tuple[object, ...]]:
    """The stages that were finished, in order, by what does not hang on positions."""
    told: list[tuple[object, ...]] = []
    for event in events(at):
        match event:
            case BenchmarkFrozen():
                told.append(("benchmark", event.benchmark, event.digest))
            case SweepPlanned():
                told.append(("sweep", event.sweep, tuple(spec.spec_id for spec in event.specs)))
            case DatasetFrozen():
                told.append(("dataset", event.query, event.rows, event.groups, event.refused))
            case CheckpointSaved():
                told.append(("checkpoint", event.algorithm, event.base))
            case EvaluationOpened():
                told.append(("evaluation", event.evaluation, event.benchmark))
            case VerdictReached():
                told.append(("verdict", event.evaluation, event.verdict.decision, event.verdict.mean_delta))
            case ChampionPointed():
                told.append(("champion", event.by, event.evaluation))
    return told


def nothing_is_repeated(at: Project) -> None:
    """One ending of each run that was planned or begun, one result of each stage, and a log that holds together."""
    ended = Counter(event.run for event in of_type(at, RunFinished, RunMissing))
    planned = {spec.spec_id for sweep in of_type(at, SweepPlanned) for spec in sweep.specs}
    assert set(ended.values()) == {1}
    assert planned <= ended.keys()
    arms = Counter(run.partition("__")[0] for run in ended.keys() - planned)
    assert set(arms) == {event.evaluation for event in of_type(at, EvaluationOpened)}
    assert min(arms.values()) >= ARMS
    for told in (
        [event.sweep for event in of_type(at, SweepPlanned)],
        [event.query.sweep for event in of_type(at, DatasetFrozen)],
        [event.training for event in of_type(at, CheckpointSaved)],
        [event.evaluation for event in of_type(at, EvaluationOpened)],
        [event.evaluation for event in of_type(at, VerdictReached)],
    ):
        assert len(told) == len(set(told)) == len(STAGES)
    store = at.house.store
    assert len(list(verified(store.stored(), after=START, previous=GENESIS))) == store.head()
    assert all(found.is_identical for found in compare(at.house.views()))
    assert every_verdict_recomputes(at.house) == len(STAGES)


def nothing_is_left(at: Project) -> None:
    """No process, and no folder of what was killed."""
    assert [line for process, line in at.processes().items() if not has_ended(process)] == []
    assert list((at.folder / "temporary").iterdir()) == []
    models = {each.name for each in (at.folder / "home" / "models").iterdir()}
    assert models == {".unpacking.lock", *(event.checkpoint for event in of_type(at, CheckpointSaved))}


def attempts_are_told(at: Project) -> None:
    """A stage that was killed is begun again as another attempt; one whose process died has failed before that."""
    attempts: Mapping[str, list[int]] = {"sft": [], "grpo": []}
    for event in of_type(at, TrainingStarted):
        attempts[event.config.algorithm].append(event.attempt)
    assert attempts == {"sft": [1, 2, 3], "grpo": [1, 2]}
    assert [event.error for event in of_type(at, TrainingFailed)] == ["ProcessEnded"]


def checkpoints_are_the_same(undisturbed: Project, killed: Project, base: str) -> None:
    """The first one to the byte: its rows stand at the same positions.

    The second cannot be: the killed attempts are events, so its rows stand behind others, and what they were drawn with
    differs in the last places with what attention had kept. But training them again, undisturbed, gives it.
    """
    (first, second), (expected, _) = (
        [event.checkpoint for event in of_type(each, CheckpointSaved)] for each in (killed, undisturbed)
    )
    assert first == expected
    killed.completed(killed.begun(("checkpoint", "verify", second, "--base", base)))
