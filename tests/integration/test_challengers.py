"""Both kinds of challenger before one gate, on a real site and PostgreSQL: weights alone, and weights with memory.

A checkpoint is stood in for by a digest and by the model that serves it: the base gives up, the checkpoint finds the
phone number. Memory alone is judged in test_evaluate.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.sites.marketplace.drift import CANONICAL, drift_family
from agents.executors.by_weights import ByWeights
from agents.executors.errors import NotServed
from agents.executors.policy import PolicyExecutor
from agents.learning.errors import EmbeddingsUnfit
from agents.learning.memory import build_memory_artifact, forget_everything
from agents.rewards import DEFAULT_PRICES
from api.course import Course
from api.errors import BadArtifactName, Unknown
from api.evaluations.artifacts import resolve_artifact, show_artifact
from api.evaluations.evaluate import challenge, play_and_settle
from api.house import House
from api.queries.champion import present_champion
from eventlog.events import (
    Anchor,
    Artifact,
    BenchmarkFrozen,
    BenchmarkTemplate,
    ChampionPointed,
    ModelCalled,
    ReplaceUrl,
    RewriteProposed,
    RewriteWon,
    Rules,
    RunStarted,
    SeedsRule,
)
from eventlog.store import Append
from gate.benchmark import freeze_benchmark
from gate.promote import back, freeze_into
from projections.verdicts import VERDICTS
from tests.golden.make import Quiet
from tests.model_server import Asked, ModelServer, model_server
from tests.recomputing import every_verdict_recomputes

from .test_policy_rollouts import PHONE, action, model, rule

CHECKPOINT = "3f9a1c22" + "0" * 56
BASE = forget_everything("base")[0]
SEEDS = list(islice((seed for seed in range(400) if drift_family(seed) is CANONICAL), 10))
RULES = Rules(min_pairs=10)
COURSE = Course(max_parallel=2, rules=RULES)


def answer(asked: Asked) -> str:
    return rule(asked) if asked.body["model"] == "ck-3f9a1c22" else action("finish")


@pytest.fixture(scope="module")
def client(marketplace: EnvClient) -> EnvClient:
    return marketplace


@pytest.fixture(scope="module")
def host() -> Iterator[ModelServer]:
    with model_server(answer) as opened:
        yield opened


@contextmanager
def policies(host: ModelServer) -> Iterator[ByWeights]:
    with model(host, model="base") as weak, model(host, model="ck-3f9a1c22") as strong:
        yield ByWeights({"base": PolicyExecutor(weak), CHECKPOINT: PolicyExecutor(strong)})


def begun(house: House) -> BenchmarkFrozen:
    """A log with prices, the base as champion, and a benchmark for one challenger on ten instances."""
    genesis = ChampionPointed(artifact=BASE, by="genesis", reason="the bare weights", evaluation=None)
    house.store.append([Append("prices", (DEFAULT_PRICES,), "test"), Append("champion", (genesis,), "test")])
    house.blobs.put([forget_everything("base")[1]])
    phone = BenchmarkTemplate(
        template_id=PHONE.template_id,
        cluster=PHONE.cluster,
        oracle_task_id=PHONE.oracle_task_id,
        instruction=PHONE.instruction,
        max_steps=20,
    )
    frozen = freeze_benchmark("phones", "marketplace", [phone], [], SEEDS, 1, challengers=1)
    freeze_into(house.store, frozen, "test")
    return frozen


def learned(house: House) -> Artifact:
    """The checkpoint with a memory that holds one promoted piece."""
    anchor = Anchor(type="navigate", intent="open", content="0" * 64)
    proposed = RewriteProposed(
        rewrite="rw-1",
        anchor=anchor,
        change=ReplaceUrl(url="/boats"),
        rule=SeedsRule(wins_to_promote=1),
        run="r1",
        source="page_links",
        confidence=1,
    )
    won = RewriteWon(rewrite="rw-1", run="r2", control_runs=(), control_successes=0)
    house.store.append([Append("rewrite/rw-1", (proposed, won), "test")])
    artifact, blob = build_memory_artifact(house.views(), CHECKPOINT)
    house.blobs.put([blob])
    return artifact


def judged(house: House, client: EnvClient, host: ModelServer, challenger: Artifact) -> None:
    """The challenger plays against the base, promotes, and every run was played by the model of its own weights."""
    frozen = begun(house)
    with policies(host) as executor:
        evaluation = challenge(house, frozen, challenger, RULES, executor)
        said = play_and_settle(house, client, evaluation, COURSE, Quiet(), executor)
    state = house.views().find(VERDICTS)[evaluation]
    verdict = state.verdict_reached()
    assert verdict is not None
    assert said == f"{evaluation} was decided: promote", verdict.reasons
    won = verdict.challenger.passed
    assert (verdict.champion.passed, verdict.p_value) == (0, -(-(10**12) // 2**won))
    assert present_champion(house.views()).pointed_artifact() == verdict.challenger.artifact == challenger
    asked = dict(models_of_runs(house))
    assert len(asked) == 2 * len(SEEDS)
    assert set(asked.values()) == {("base", "base-served"), (CHECKPOINT, "ck-3f9a1c22-served")}
    assert every_verdict_recomputes(house) == 1


def models_of_runs(house: House) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each run with the weights it is pinned to and the model that was asked in it."""
    weights: dict[str, str] = {}
    for recorded in house.store.read(types=["RunStarted", "ModelCalled"]):
        event: Any = recorded.event
        if isinstance(event, RunStarted):
            weights[event.run] = event.artifact.weights
        elif isinstance(event, ModelCalled):
            yield event.run, (weights[event.run], event.model)


def test_a_checkpoint_with_the_champions_memory_goes_through_the_gate(
    client: EnvClient, host: ModelServer, empty_house: House
) -> None:
    house = empty_house
    challenger, blob = forget_everything(CHECKPOINT)
    house.blobs.put([blob])
    judged(house, client, host, challenger)
    assert resolve_artifact(house, "ck-3f9a1c22@0")[0] == challenger
    assert resolve_artifact(house, f"ck-{CHECKPOINT}@0")[0] == challenger


def test_a_checkpoint_and_a_memory_go_through_the_gate_together_and_back(
    client: EnvClient, host: ModelServer, empty_house: House
) -> None:
    house = empty_house
    challenger = learned(house)
    judged(house, client, host, challenger)
    name = present_champion(house.views()).name
    assert name == f"ck-3f9a1c22@{challenger.memory.upto}"
    assert resolve_artifact(house, name)[0] == challenger
    restored = back(house.store, house.views(), "a trial", "ann")
    assert (restored.artifact, restored.quarantined) == (BASE, ("rw-1",))
    assert every_verdict_recomputes(house) == 1


def test_a_checkpoint_that_no_model_serves_is_refused_before_any_alpha_is_spent(
    host: ModelServer, empty_house: House
) -> None:
    frozen = begun(empty_house)
    head = empty_house.store.head()
    with policies(host) as executor, pytest.raises(NotServed, match="No model serves the weights eeee"):
        challenge(empty_house, frozen, forget_everything("e" * 64)[0], RULES, executor)
    assert empty_house.store.head() == head


def test_an_evaluation_is_not_continued_before_a_model_that_serves_one_of_its_arms_alone(
    client: EnvClient, host: ModelServer, empty_house: House
) -> None:
    frozen = begun(empty_house)
    challenger, memory = forget_everything(CHECKPOINT)
    empty_house.blobs.put([memory])
    with policies(host) as executor:
        evaluation = challenge(empty_house, frozen, challenger, RULES, executor)
    head = empty_house.store.head()
    with model(host, model="base") as alone, pytest.raises(NotServed, match="No model serves the weights 3f9a"):
        play_and_settle(empty_house, client, evaluation, COURSE, Quiet(), PolicyExecutor(alone))
    assert empty_house.store.head() == head


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("ck-3f9a1c22@0", pytest.raises(Unknown, match="Known are none")),
        ("ck-aaaaaaaa@0", pytest.raises(Unknown, match="Give more of its digest")),
        ("ck-aaaaaaaa0@0", nullcontext()),
        ("ck-aaaaaaa@0", pytest.raises(BadArtifactName, match="ck-DIGEST@POSITION")),
    ],
)
def test_a_checkpoint_is_named_by_the_beginning_of_its_digest(name: str, refused: Any, empty_house: House) -> None:
    if "aaa" in name:
        for weights in ("a" * 8 + "0" * 56, "a" * 8 + "1" * 56):
            artifact = forget_everything(weights)[0]
            pointed = ChampionPointed(artifact=artifact, by="operator", reason="a trial", evaluation=None)
            empty_house.store.append([Append("champion", (pointed,), "test")])
    with refused:
        assert resolve_artifact(empty_house, name)[0].weights == "a" * 8 + "0" * 56


def test_an_artifact_is_told_as_it_was_recorded_and_without_the_embedding_model(
    empty_house: House, tmp_path: Path
) -> None:
    challenger = learned(empty_house)
    memory = challenger.memory.model_copy(update={"embeddings": "e" * 64})
    other = replace(empty_house, settings=empty_house.settings.model_copy(update={"embeddings": tmp_path}))
    name = f"base@{memory.upto}"
    with pytest.raises(EmbeddingsUnfit):
        resolve_artifact(other, name)
    before = show_artifact(other, other.views(), name)
    assert (before.artifact.memory.digest, before.artifact.memory.embeddings) == (memory.digest, None)
    pointed = ChampionPointed(
        artifact=Artifact(weights="base", memory=memory), by="operator", reason="a trial", evaluation=None
    )
    empty_house.store.append([Append("champion", (pointed,), "test")])
    told = show_artifact(other, other.views(), name)
    assert (told.artifact.memory.embeddings, told.pieces) == ("e" * 64, before.pieces)
    assert [piece.piece for piece in told.pieces] == ["rw-1"]
