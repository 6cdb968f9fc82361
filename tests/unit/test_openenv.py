"""An OpenEnv server as an environment: over a stand-in that speaks its protocol, and over the package where it is.

`FLYWHEEL_TEST_OPENENV` names a Python that has `openenv-core`; its versions of other libraries are not ours.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from agents.envs.episodes.environment import EpisodeEnvironment
from agents.envs.episodes.episode import UnfitArgument
from agents.envs.episodes.errors import UnknownEnvironment
from agents.envs.episodes.openenv import OpenEnvEpisode
from agents.envs.episodes.opening import open_episodes
from agents.envs.errors import ContractBroken, EnvironmentDown
from agents.envs.probing.probes import report
from agents.executors.episodes.kit import episodes_target
from agents.executors.episodes.surface import on_episodes
from agents.executors.executor import Assignment
from agents.executors.policy import PolicyExecutor
from agents.models.scripted import Scripted
from tests.openenv_stand_in import FIELDS, drawn_by, stand_in

REAL = os.environ.get("FLYWHEEL_TEST_OPENENV")
GUESS = Path(__file__).parents[1] / "openenv_guess.py"


@contextmanager
def real_server(python: str) -> Iterator[str]:
    """The address of a server of the package itself."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen([python, str(GUESS), str(port)]) as process:
        try:
            for _ in range(600):
                try:
                    httpx2.get(f"{url}/health", trust_env=False)
                    break
                except httpx2.HTTPError:
                    time.sleep(0.1)
            yield url
        finally:
            process.kill()


@pytest.fixture(
    scope="module",
    params=[
        "stand-in",
        pytest.param("package", marks=pytest.mark.skipif(REAL is None, reason="FLYWHEEL_TEST_OPENENV names no Python")),
    ],
)
def guess(request: pytest.FixtureRequest) -> Iterator[EpisodeEnvironment]:
    """The game through its server; a win at the second guess still passes."""
    server = stand_in() if request.param == "stand-in" else real_server(str(REAL))
    with server as url, open_episodes("openenv.guess", url, 750_000) as environment:
        yield environment


def test_a_server_of_others_passes_the_probes_of_a_site(guess: EpisodeEnvironment) -> None:
    found = report(episodes_target(guess, seeds=(0, 1, 10_000), rng_seed=0))
    outcomes = {each.name: each.outcome for each in found.probes}
    skipped = {"oracle_agent", "wrong_token", "pages_port", "killed_process"}
    assert {name for name, outcome in outcomes.items() if outcome == "skipped"} == skipped
    assert "failed" not in outcomes.values(), found.probes
    assert found.url == guess.admin_url


def test_a_policy_acts_in_a_session_and_is_graded_by_the_servers_reward(guess: EpisodeEnvironment) -> None:
    number = str(drawn_by(7))
    for answers, score, passed in ((["0", number], 800_000, True), (["0", "1", "2"], 0, False)):
        instance, model = guess.reset(7), Scripted(answers)
        executor = PolicyExecutor(model, opening=on_episodes(guess))
        done = executor.execute(Assignment("guess", (), 9), instance)
        graded = guess.oracle(instance, "openenv.guess")
        assert (graded.score_micro, graded.passed, done.status) == (score, passed, "completed")
        assert [taken.step.action for taken in done.taken] == ["guess"] * len(answers)
        assert "more" in model.requests[1].messages[-1].text
        episode = guess.episode_of(instance)
        assert isinstance(episode, OpenEnvEpisode)
        assert episode.state()["step_count"] == len(answers)
        guess.close(instance)


def test_an_action_of_several_fields_is_one_json_object() -> None:
    with stand_in(FIELDS) as url, open_episodes("openenv.grid", url) as environment:
        (action,) = environment.kind.actions
        assert (action.name, action.argument) == ("step", "json")
        assert '"row": {"type": "integer"}' in action.about
        instance = environment.reset(0)
        for argument in ("no json", "[1]", '{"row": 1}'):
            with pytest.raises(UnfitArgument):
                environment.act(instance, "step", argument)
        assert environment.mutations(instance) == ()


def test_what_a_server_does_wrong_is_an_outage_or_a_broken_contract_and_never_a_score() -> None:
    with stand_in() as url:
        environment = open_episodes("openenv.guess", url)
        instance = environment.reset(0)
    with pytest.raises(EnvironmentDown):
        environment.act(instance, "guess", "1")
    with pytest.raises(EnvironmentDown):
        environment.reset(0)
    with pytest.raises(EnvironmentDown, match="schema"):
        open_episodes("openenv.guess", "http://127.0.0.1:1")
    environment.disconnect()
    for spoilt in (
        "{",
        "[]",
        '{"type": "error", "data": {"code": "CAPACITY_REACHED", "message": "full"}}',
        '{"data": {}}',
    ):
        with (
            stand_in(spoils=spoilt) as url,
            open_episodes("openenv.guess", url) as broken,
            pytest.raises(ContractBroken),
        ):
            broken.reset(0)


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(UnknownEnvironment, match="http"):
        open_episodes("openenv.guess", "localhost:8000")
    with pytest.raises(UnknownEnvironment, match="was given"):
        open_episodes("gymnasium.FrozenLake-v1", "http://127.0.0.1:1")
