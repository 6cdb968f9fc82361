"""`flywheel run --loop slow` killed for real at every stage of its rounds: it ends as if nobody had touched it.

One history beside an undisturbed one. The command, its site, its training process and the database are the real ones;
the base model is a tiny one that was warmed up on one task.

One round with five kills is in every test run. Two rounds with ten, and a round of DPO, are in `make endure`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.provider import local_site
from eventlog.events import (
    BenchmarkFrozen,
    ChampionPointed,
    CheckpointSaved,
    DatasetFrozen,
    EvaluationLooked,
    EvaluationOpened,
    RewardGraded,
    RunFinished,
    RunMissing,
    SweepPlanned,
    TrainingFailed,
    TrainingStarted,
    VerdictReached,
)
from eventlog.weights_folder import TENSORS, Base
from gate.promote import freeze_into
from tests.admitted import admitted
from tests.coin import SITE, TASK, make_coin, smallest_benchmark
from tests.conftest import Database
from tests.killing import Kill, Project, make_time_free, nothing_is_left, project_on, the_log_is_whole
from tests.recomputing import every_verdict_recomputes

pytestmark = [pytest.mark.timeout(1800), pytest.mark.filterwarnings("ignore::FutureWarning")]

STAGES = (
    {"algorithm": "sft", "steps": 6, "learning_rate": "0.005", "rows_per_step": 4},
    {"algorithm": "grpo", "steps": 2, "learning_rate": "0.001", "groups_per_step": 2},
)

KILLS = (
    Kill("RunFinished", 3, f"run/{SITE}-1__"),
    Kill("DatasetFrozen"),
    Kill("TrainingProgressed", whom="controller"),
    Kill("CheckpointSaved"),
    Kill("RunFinished", 10, "run/eval-1__"),
)
SEEN = Kill("RunFinished", 14, "run/eval-1__")
"""How far the undisturbed history of one round is played: so many arms that some of them came after the last kill."""

EVERY_KILL = (
    Kill("RunFinished", 3, f"run/{SITE}-1__"),
    Kill("DatasetFrozen"),
    Kill("TrainingProgressed", whom="controller"),
    Kill("TrainingStarted", 2, whom="trainer"),
    Kill("CheckpointSaved"),
    Kill("EvaluationOpened"),
    Kill("RunFinished", 20, "run/eval-1__"),
    Kill("EvaluationLooked"),
    Kill("SweepPlanned", 2),
    Kill("TrainingStarted", 1, "training/grpo-"),
)
"""One after the other. An evaluation has looked at its evidence before its verdict is reached."""

DPO = ({"algorithm": "dpo", "steps": 6, "learning_rate": "0.001", "pairs_per_step": 2},)
DPO_KILLS = (Kill("TrainingProgressed", whom="controller"), Kill("TrainingStarted", 2, whom="trainer"))


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
            make_time_free(made.house.store)
            admitted(made.house.store, SITE)
            freeze_into(made.house.store, smallest_benchmark(client), "test")
            return made

        yield make


def words(base: Base, folder: Path, stages: Sequence[Mapping[str, Any]], seeds: int) -> tuple[str, ...]:
    """The slow loop on the command line: runs one after the other, so that nothing but kills disturbs their order."""
    file = folder / "stages.json"
    file.write_text(json.dumps(stages))
    sizes = ("--seeds", str(seeds), "--siblings", "4", "--stages", str(file), "--max-parallel", "1")
    return ("run", "--loop", "slow", "--json", "--site", SITE, "--task", TASK, "--base", str(base.path), *sizes)


@pytest.mark.costly("five kills of a real command and its training process, beside a history without any")
def test_a_round_killed_at_five_stages_goes_on_as_an_undisturbed_one_does(
    project: Callable[[str], Project], base: Base, tmp_path: Path
) -> None:
    undisturbed, killed, asked = project("undisturbed"), project("killed"), words(base, tmp_path, STAGES[:1], seeds=4)
    child = undisturbed.begun(asked)
    undisturbed.wait(SEEN, child)
    undisturbed.strike(SEEN, child)
    interrupted = killed.driven(asked, KILLS)

    before, after = finished(undisturbed), finished(killed)
    assert after[: len(before)] == before
    assert [what for what, *_ in before] == ["benchmark", "champion", "sweep", "dataset", "checkpoint", "evaluation"]
    assert [what for what, *_ in after[len(before) :]] == ["verdict", "champion"]
    seen, earned = rewards(undisturbed), rewards(killed)
    assert {run: earned[run] for run in seen} == seen
    nothing_is_repeated(killed, 1)
    nothing_is_left(killed)
    assert interrupted["sft"] >= 1
    attempts_are_told(killed, interrupted, died=[])
    (saved,), (expected,) = killed.events(CheckpointSaved), undisturbed.events(CheckpointSaved)
    assert tensors(saved) == tensors(expected)


@pytest.mark.endure
def test_a_loop_killed_at_every_stage_ends_as_an_undisturbed_one_does(
    project: Callable[[str], Project], base: Base, tmp_path: Path
) -> None:
    undisturbed, killed, asked = project("undisturbed"), project("killed"), words(base, tmp_path, STAGES, seeds=8)
    undisturbed.completed(undisturbed.begun(asked))
    interrupted = killed.driven(asked, EVERY_KILL)

    assert finished(killed) == finished(undisturbed)
    nothing_is_repeated(undisturbed, len(STAGES))
    nothing_is_repeated(killed, len(STAGES))
    nothing_is_left(killed)
    assert (interrupted["sft"] >= 2, interrupted["grpo"] >= 1) == (True, True)
    attempts_are_told(killed, interrupted, died=["ProcessEnded"])
    first, second = killed.events(CheckpointSaved)
    expected, _ = undisturbed.events(CheckpointSaved)
    assert tensors(first) == tensors(expected)
    gives_it_again(killed, second, base)


@pytest.mark.endure
def test_a_loop_killed_while_it_trains_on_pairs_ends_with_what_an_undisturbed_training_gives(
    project: Callable[[str], Project], base: Base, tmp_path: Path
) -> None:
    """The base passes two draws of five, so most groups of siblings have a pair."""
    killed, asked = project("killed"), words(base, tmp_path, DPO, seeds=4)
    interrupted = killed.driven(asked, DPO_KILLS)

    nothing_is_repeated(killed, 1)
    nothing_is_left(killed)
    attempts_are_told(killed, interrupted, died=["ProcessEnded"])
    (dataset,), (saved,) = killed.events(DatasetFrozen), killed.events(CheckpointSaved)
    assert (dataset.query.kind, dataset.rows > 1) == ("dpo", True)
    gives_it_again(killed, saved, base)


def finished(at: Project) -> list[tuple[object, ...]]:
    """The stages that were finished, in order, by what does not hang on positions."""
    told: list[tuple[object, ...]] = []
    for event in at.events():
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


def rewards(at: Project) -> dict[str, tuple[int, int | None]]:
    """What each run earned, and after what it cost: who drew other tokens in the same instance differs in that.

    A run of an evaluation that was interrupted is begun again under another name, which is left out here.
    """
    return {event.run.partition("__again")[0]: (event.score, event.value) for event in at.events(RewardGraded)}


def nothing_is_repeated(at: Project, rounds: int) -> None:
    """One ending of each run that was planned or begun, one result of each stage, and a log that holds together."""
    ended = Counter(event.run for event in at.events(RunFinished, RunMissing))
    planned = {spec.spec_id for sweep in at.events(SweepPlanned) for spec in sweep.specs}
    assert set(ended.values()) == {1}
    assert planned <= ended.keys()
    arms = Counter(run.partition("__")[0] for run in ended.keys() - planned)
    assert set(arms) == {event.evaluation for event in at.events(EvaluationOpened)}
    assert all(arms[event.evaluation] >= event.runs > 0 for event in at.events(EvaluationLooked))
    for told in (
        [event.sweep for event in at.events(SweepPlanned)],
        [event.query.sweep for event in at.events(DatasetFrozen)],
        [event.training for event in at.events(CheckpointSaved)],
        [event.evaluation for event in at.events(EvaluationOpened)],
        [event.evaluation for event in at.events(VerdictReached)],
    ):
        assert len(told) == len(set(told)) == rounds
    the_log_is_whole(at)
    assert every_verdict_recomputes(at.house) == rounds


def attempts_are_told(at: Project, interrupted: Counter[str], *, died: list[str]) -> None:
    """Each interrupted training is followed by one more attempt; one whose process died has failed before that."""
    attempts: dict[str, list[int]] = {}
    for event in at.events(TrainingStarted):
        attempts.setdefault(event.config.algorithm, []).append(event.attempt)
    assert attempts == {name: list(range(1, interrupted[name] + 2)) for name in attempts}
    assert [event.error for event in at.events(TrainingFailed)] == died


def tensors(saved: CheckpointSaved) -> str:
    """The digest of a checkpoint's tensors.

    After SFT they are those of the undisturbed loop. What was drawn again after a kill differs in the last places of
    its log-probabilities, with what attention had kept. The rows hold these, so the checkpoint's digest tells it. But
    SFT does not read them.
    """
    return next(file.blob for file in saved.files if file.name == TENSORS)


def gives_it_again(at: Project, saved: CheckpointSaved, base: Base) -> None:
    """Training a checkpoint again, undisturbed, gives it."""
    at.completed(at.begun(("checkpoint", "verify", saved.checkpoint, "--base", str(base.path))))
