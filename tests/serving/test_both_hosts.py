"""The gate on both kinds of hosts: one takes an adapter with each request, the other is fixed to one when it starts.

A policy's answers are drawn by llama.cpp in float32 from a tiny base with or without an adapter. What it draws decides
what it does: where the tokens are those of the base it gives up, else it finds the phone number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath

import pytest

from agents.models.servers.plan import ServedBase
from agents.models.servers.runner import GgufRunner
from api.cli.main import run_command
from api.serving.conversion import Conversions
from api.sweeps.plan import first_facts
from eventlog.database import open_engine
from eventlog.events import RewardGraded, RunStarted, VerdictReached
from eventlog.weights_folder import Base, file_digest
from tests.admitted import admitted
from tests.conftest import Database, house_on
from tests.integration.test_challenger_references import record
from tests.integration.test_policy_rollouts import action, rule
from tests.model_server import Asked, model_server
from tests.sites import SharedSite
from tests.tiny import convert_here, make_base, planted_checkpoint
from trainer.checkpoint import Checkpoint

pytestmark = [
    pytest.mark.serving,
    pytest.mark.llamacpp,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

REFERENCE = "store:/adapter.gguf"
SEEDS = range(1, 4)
PHONE = "marketplace.phone_reveal"
Tokens = tuple[int, ...]
Host = Callable[[str, bool], Tokens]
"""Tokens drawn at temperature 0 after a text, by the challenger if the second argument is True, else by the base."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("bases"), "llama")


@pytest.fixture(scope="module")
def saved(base: Base, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return planted_checkpoint(tmp_path_factory.mktemp("checkpoints"), base, 1, scale=0.5)


@pytest.fixture(scope="module")
def hosts(base: Base, saved: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Host]:
    """Both hosts, as a deploy target runs them: `GgufRunner`."""
    store = tmp_path_factory.mktemp("store")
    made = Conversions(store, base, convert=convert_here)
    model = made.base_file()
    made.checkpoint_file(saved.digest, saved.path).rename(store / "adapter.gguf")

    def runner(fixed: str | None = None) -> GgufRunner:
        mounts = {"store": PurePosixPath(store)}
        served = ServedBase("tiny", "llama.cpp", str(model))
        return GgufRunner(served, file_digest(model), mounts, fixed=fixed, context=128)

    by_request, plain, fixed = runner(), runner(), runner(REFERENCE)
    return {
        "by request": lambda text, is_challenger: _ids(
            by_request, text, **({"_lora_adapter": REFERENCE} if is_challenger else {})
        ),
        "fixed": lambda text, is_challenger: _ids(fixed if is_challenger else plain, text),
    }


def _ids(host: GgufRunner, text: str, **suite: str) -> Tokens:
    asked = {"messages": [{"role": "user", "content": text}], "max_tokens": 8, "temperature": 0, "logprobs": True}
    (choice,) = host.answer({**asked, **suite})["choices"]
    return tuple(each["id"] for each in choice["logprobs"]["content"])


@pytest.mark.costly("two evaluations of six runs, which is what a verdict on either host takes")
def test_the_gate_reaches_the_same_verdict_by_the_same_tokens_on_both_kinds_of_hosts(
    hosts: dict[str, Host],
    base: Base,
    saved: Checkpoint,
    clone: Callable[[str], Database],
    shared_site: SharedSite,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    site = shared_site("marketplace")
    monkeypatch.setenv("FLYWHEEL_ENV_ADMIN_TOKEN", site.admin_token)
    monkeypatch.setenv("FLYWHEEL_MODEL_BASE", base.digest)
    monkeypatch.setenv("FLYWHEEL_MODELS", str(tmp_path))
    where = ("--url", site.url, "--admin-url", site.admin_url)
    by_request, fixed = [judge(host, saved, clone("empty"), where, monkeypatch) for host in hosts.values()]
    assert by_request == fixed
    assert by_request.scores["champion", 0] == len(SEEDS)
    assert by_request.scores["challenger", 1_000_000] > len(SEEDS) // 2  # the silent base would pass none
    drawn = {is_challenger for _, is_challenger in by_request.drawn}
    assert drawn == {True, False}


@dataclass(frozen=True)
class Judged:
    """A verdict, the scores of both arms, and the tokens of every text that either arm asked for."""

    decision: str
    scores: dict[tuple[str, int], int]
    drawn: dict[tuple[str, bool], Tokens]


def judge(
    host: Host, saved: Checkpoint, database: Database, where: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> Judged:
    """Run the gate on a log of its own, with a host behind its model server."""
    drawn: dict[tuple[str, bool], Tokens] = {}

    def answer(asked: Asked) -> str:
        assert asked.body["temperature"] == 0
        text, is_challenger = sha256(asked.text.encode()).hexdigest()[:16], "+" in asked.body["model"]
        drawn[text, is_challenger] = host(text, is_challenger)
        return rule(asked) if drawn[text, is_challenger] != host(text, False) else action("finish")

    engine = open_engine(database.app_url)
    house = house_on(engine, database)
    admitted(house.store, "marketplace")
    first_facts(house)
    record(house, saved)
    with model_server(answer) as endpoint:
        own = {
            "FLYWHEEL_DATABASE_URL": database.app_url,
            "FLYWHEEL_OWNER_URL": database.owner_url,
            "FLYWHEEL_KEYS": str(database.keys),
            "FLYWHEEL_MODEL": "m1",
            "FLYWHEEL_MODEL_URL": endpoint.url,
            "FLYWHEEL_MODEL_STORE": "/models",
        }
        for name, value in own.items():
            monkeypatch.setenv(name, value)
        seeds = (
            "--sealed-seeds",
            f"{SEEDS[0]}-{SEEDS[-1]}",
            "--visible",
            "0",
            "--challengers",
            "1",
            "--max-steps",
            "14",
        )
        assert (
            run_command(["benchmark", "freeze", "b", "--task", PHONE, *seeds, "--executor", "policy", *where[:4]]) == 0
        )
        run_command(
            ["gate", "run", "--benchmark", "b", "--lora-adapter", str(saved.path), "--test", "bootstrap", *where]
        )
    found = [each.event for each in house.store.read(types=["RunStarted", "RewardGraded", "VerdictReached"])]
    engine.dispose()
    arms = {each.run: each.arm.arm for each in found if isinstance(each, RunStarted) and each.arm is not None}
    graded = [(arms[each.run], each.terms.score) for each in found if isinstance(each, RewardGraded)]
    (verdict,) = [each.verdict for each in found if isinstance(each, VerdictReached)]
    return Judged(verdict.decision, dict(Counter(graded)), drawn)
