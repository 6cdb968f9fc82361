"""Policies whose weights lie in this process, on a real site: each run is played by the weights it is pinned to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.provider import local_site
from agents.executors.by_weights import refuse_unserved
from agents.executors.errors import NotServed
from agents.executors.local import LocalPolicies
from agents.learning.memory import forget_everything
from agents.models.local.host import Host
from agents.rollouts.dispatching.dispatch import Call, Dispatch
from agents.rollouts.play import Job, Means
from agents.rollouts.record import rollout, stopwatch
from agents.rollouts.sweep import SeedSweep
from api.datasets import freeze
from api.settings import Settings
from api.sweeps.executors import Way, describe_executor, executor_of, options_of, recorded_as
from eventlog.blobs import MemoryBlobs
from eventlog.errors import BaseMissing, CheckpointAltered
from eventlog.events import RunFinished, SeedsRule, SftQuery, SweepPlanned
from eventlog.weights_folder import TENSORS, Base
from tests.tiny import make_base, planted_checkpoint
from tests.unit.test_agent_samples import BOOK, EMPTY, a_store, views
from trainer.bases import check_rows
from trainer.checkpoint import Checkpoint
from trainer.rows import read_rows

from .test_policy_rollouts import PHONE

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what a model needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def client() -> Iterator[EnvClient]:
    with local_site("marketplace") as site, EnvClient(site.admin_url, site.admin_token) as opened:
        yield opened


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("bases"), longest=2048)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, base: Base) -> Checkpoint:
    return planted_checkpoint(tmp_path_factory.mktemp("checkpoints"), base, seed=1)


@pytest.fixture(scope="module")
def policies(base: Base, saved: Checkpoint) -> Iterator[LocalPolicies]:
    with closing(Host(base.path)) as host:
        yield LocalPolicies(host, lambda weights: saved.path.parent / weights, wording="brief")


def jobs(weights: str, sweep: str) -> list[Job]:
    artifact, _ = forget_everything(weights)
    specs = SeedSweep(sweep, [PHONE], [1, 2], 2, [1_000_000]).specs()
    return [Job(spec, PHONE, "marketplace", artifact, (), None, None, learns=False) for spec in specs]


def runs_with_a_cut_answer(events: list[Any], blobs: MemoryBlobs) -> set[str]:
    """Runs of weights that were never trained, which go on until their tokens are spent more often than not."""
    return {
        event.run
        for event in events
        if event.type == "ModelCalled"
        and json.loads(blobs.get(event.completion).body)["samples"][0]["finish"] == "length"
    }


def test_runs_of_several_weights_play_side_by_side_and_become_rows_that_training_takes(
    tmp_path: Path, client: EnvClient, policies: LocalPolicies, base: Base, saved: Checkpoint
) -> None:
    store, blobs = a_store(), MemoryBlobs()
    means = Means(client, BOOK, SeedsRule(), stopwatch, policies)
    todo = [*jobs("base", "plain"), *jobs(saved.digest, "tuned")]
    calls = [Call(job) for job in todo]
    done = Dispatch(calls, lambda job, _: rollout(job, store, blobs, means), max_parallel=len(calls))
    assert [(each.ending, each.error) for each in done.results()] == [("played", None)] * len(todo)
    events: list[Any] = [recorded.event for recorded in store.read()]
    ends = [event for event in events if isinstance(event, RunFinished)]
    assert len(ends) == len(todo)
    assert all(event.usage.output_tokens for event in ends)
    name = policies.host.name
    for job in todo:
        asked = {event.model for event in events if event.type == "ModelCalled" and event.run == job.run}
        assert asked == {name if job.artifact.weights == "base" else f"{name}+{saved.digest[:12]}"}
    built = freeze.build_dataset(store, blobs, views(store), SftQuery(runs="policy", min_score=0))
    cut = runs_with_a_cut_answer(events, blobs)
    whole = [job for job in todo if job.run not in cut]
    assert whole
    assert set(built.rows["run"]) == {job.run for job in whole}
    assert sum(each.runs for each in built.refused if each.reason == "cut_off") == len(cut)
    assert set(built.rows["weights"]) == {job.artifact.weights for job in whole}
    assert all(sum(mask) for mask in built.rows["mask"])
    file = tmp_path / "sft.parquet"
    frame = built.rows
    assert isinstance(frame, pl.DataFrame)
    frame.write_parquet(file)
    check_rows(read_rows(file, "sft"), base)


def test_weights_that_are_not_to_be_had_are_refused_before_anything_is_played(
    tmp_path: Path, policies: LocalPolicies, base: Base, saved: Checkpoint
) -> None:
    refuse_unserved(policies, [forget_everything("base")[0], forget_everything(saved.digest)[0]])
    with pytest.raises(NotServed, match="expected one of base"):
        refuse_unserved(LocalPolicies(policies.host), [forget_everything("e" * 64)[0]])
    altered = planted_checkpoint(tmp_path, base, seed=5)
    (altered.path / TENSORS).write_bytes(b"x")
    with pytest.raises(CheckpointAltered):
        refuse_unserved(LocalPolicies(policies.host, lambda _: altered.path), [forget_everything(altered.digest)[0]])


def test_a_model_that_loads_no_checkpoints_plays_no_run_of_one(policies: LocalPolicies, saved: Checkpoint) -> None:
    alone = policies.policy_for("base")
    refuse_unserved(alone, [forget_everything("base")[0]])
    with pytest.raises(NotServed, match=r"expected one of base[^$]*FLYWHEEL_MODEL_BASE"):
        refuse_unserved(alone, [forget_everything(saved.digest)[0]])


def test_a_command_names_a_base_model_by_its_folder_and_the_log_by_its_digest(base: Base, saved: Checkpoint) -> None:
    name = f"transformers:{base.path}"
    for settings, model in ((Settings(model=name), None), (Settings(model="m1", model_threads=2), name)):
        with executor_of(Way.POLICY, settings, model=model, folder_of=lambda _: saved.path) as executor:
            assert recorded_as(executor) == ("policy", f"transformers:{base.digest[:12]}")
            assert executor.offers_logprobs
            refuse_unserved(executor, [forget_everything(saved.digest)[0]])
    (spec,) = SeedSweep("s1", [PHONE], [1], 1).specs()
    planned = SweepPlanned(
        sweep="s1",
        environment="marketplace",
        templates=(PHONE,),
        specs=(spec,),
        artifact=EMPTY,
        rng_seed=7,
        executor="policy",
        model=f"transformers:{base.digest[:12]}",
    )
    assert options_of(planned) == "--executor policy --model transformers:FOLDER"
    assert describe_executor("policy", planned.model).endswith(f"with transformers:{base.digest[:12]}")


def test_a_folder_that_is_no_base_is_refused_by_name(tmp_path: Path) -> None:
    with (
        pytest.raises(BaseMissing, match=r"nowhere.*no config\.json"),
        executor_of(Way.POLICY, Settings(), model=f"transformers:{tmp_path / 'nowhere'}"),
    ):
        pass
