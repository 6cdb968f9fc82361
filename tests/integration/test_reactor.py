"""The worker's role reactor: a model server that runs gets each champion once, by what the log says it has."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from starlette.responses import JSONResponse, Response

from agents.models.scripted import Scripted
from api.cli.main import run_command
from api.house import House
from api.serving import reactor
from api.serving.deployments import stream_of_deployment
from api.serving.reactor import last_deployed, react
from api.sweeps.models import weights_endpoint
from api.sweeps.plan import first_facts
from api.training.weights import folders_of
from eventlog.errors import DatabaseRefused, FlywheelError, LogUnavailable, OutageTooLong, StatementEnded
from eventlog.events import AnyEvent, ArtifactDeployed, DeploymentFailed
from projections.errors import ProjectionParked
from tests.conftest import Database
from tests.integration.test_challenger_references import record
from tests.integration.test_served_champion import Weights, point_to
from tests.learned import with_models
from tests.model_server import ModelServer, Reply, model_server
from tests.tiny import make_base, planted_checkpoint

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore::FutureWarning")]

NAME = "vllm"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Weights:
    folder = tmp_path_factory.mktemp("weights")
    base, other = make_base(folder / "bases"), make_base(folder / "bases", seed=2)
    return Weights(base, planted_checkpoint(folder, base, 1), planted_checkpoint(folder / "o", other, 1))


@pytest.fixture
def house(empty_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.setattr(reactor, "PAUSE_S", 0.02)
    monkeypatch.setattr(reactor, "RETRY_S", 0.05)
    monkeypatch.setattr(reactor, "LOOK_S", 0.02)
    house = with_models(empty_house, tmp_path / "models")
    first_facts(house)
    return house


def before(house: House, server: ModelServer, weights: Weights) -> House:
    """The house with a vLLM server of the base in its settings."""
    named = {"model": "m1", "model_url": server.url, "model_base": weights.base.digest}
    return House(house.settings.model_copy(update=named), house.engine, house.store, house.blobs, house.projector)


def react_once(house: House) -> list[str]:
    said: list[str] = []
    with weights_endpoint(house.settings, None, folders_of(house)) as server:
        react(house, NAME, server, said.append, threading.Event(), False)
    return said


@contextmanager
def reacting(house: House) -> Iterator[list[str]]:
    """A reactor that follows the champion until the block ends; yields what it says."""
    said: list[str] = []
    ended = threading.Event()
    with weights_endpoint(house.settings, None, folders_of(house)) as server:
        arguments: Any = (house, NAME, server, said.append, ended, True)
        thread = threading.Thread(target=react, args=arguments)
        thread.start()
        try:
            yield said
        finally:
            ended.set()
            thread.join(20)


def told(house: House) -> list[AnyEvent]:
    return [each.event for each in house.store.read(stream=stream_of_deployment(NAME))]


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_each_champion_is_loaded_once_and_a_restart_deploys_nothing_again(house: House, weights: Weights) -> None:
    record(house, weights.saved)
    with model_server(lambda _: "yes") as server:
        house = before(house, server, weights)
        with reacting(house) as said:
            wait_for(lambda: len(told(house)) == 1)
            point_to(house, weights.saved.digest)
            wait_for(lambda: len(told(house)) == 2)
        assert any(weights.saved.digest[:12] in each for each in said)
        first, second = told(house)
        assert isinstance(first, ArtifactDeployed)
        assert isinstance(second, ArtifactDeployed)
        assert (first.artifact.weights, second.artifact.weights) == ("base", weights.saved.digest)
        assert [*server.loaded] == [f"m1+{weights.saved.digest[:12]}"]
        asked = len(server.asked)
        assert react_once(house) == []
        assert (len(server.asked), len(told(house)), last_deployed(house, NAME)) == (asked, 2, second)


def test_a_server_that_was_restarted_gets_what_was_deployed_again_and_nothing_new_is_recorded(
    house: House, weights: Weights
) -> None:
    record(house, weights.saved)
    point_to(house, weights.saved.digest)
    served = f"m1+{weights.saved.digest[:12]}"
    with model_server(lambda _: "yes") as server:
        house = before(house, server, weights)
        with reacting(house) as said:
            wait_for(lambda: said)
            for restarts in (1, 2):
                server.loaded.clear()
                wait_for(lambda: len(said) == 1 + restarts)  # noqa: B023
                assert said[restarts].endswith("again, which its server had lost")
                assert [*server.loaded] == [served]
        server.loaded.clear()
        (told_again,) = react_once(house)  # a worker that begins after the server was restarted
        assert (told_again, [*server.loaded]) == (said[1], [served])
        assert react_once(house) == []
    assert [each.type for each in told(house)] == ["ArtifactDeployed"]


def test_what_a_restarted_server_refuses_is_said_once_and_loaded_when_it_does_not(
    house: House, weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(house, weights.saved)
    point_to(house, weights.saved.digest)
    with model_server(lambda _: "yes") as server:
        house = before(house, server, weights)
        refused: list[str] = []
        load = server.load_adapter

        def refuse(name: str, folder: str) -> Response:
            refused.append(name)
            return JSONResponse({"error": {"message": "no room for an adapter"}}, 400)

        with reacting(house) as said:
            wait_for(lambda: said)
            monkeypatch.setattr(server, "load_adapter", refuse)
            server.loaded.clear()
            wait_for(lambda: len(refused) > 2)
            assert [("no room" in each) for each in said] == [False, True]
            monkeypatch.setattr(server, "load_adapter", load)
            wait_for(lambda: server.loaded)
            wait_for(lambda: len(said) == 3)
    assert [each.type for each in told(house)] == ["ArtifactDeployed"]


def test_a_champion_that_cannot_be_loaded_leaves_its_reason_and_what_is_kept(house: House, weights: Weights) -> None:
    record(house, weights.alien)
    with model_server(lambda _: "yes") as server:
        house = before(house, server, weights)
        react_once(house)
        point_to(house, weights.alien.digest)
        for _ in range(2):  # the second is a restart, which says the same and records nothing
            (said,) = react_once(house)
            assert said.startswith("vllm keeps base: ")
        _, failed = told(house)
        assert isinstance(failed, DeploymentFailed)
        assert (failed.kept, weights.base.digest in failed.reason) == ("base", True)
        point_to(house, "base")
        react_once(house)
        assert [each.type for each in told(house)] == ["ArtifactDeployed", "DeploymentFailed", "ArtifactDeployed"]


def test_a_server_that_is_away_gets_the_champion_when_it_is_back(
    house: House, weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.models.wire.time.sleep", lambda _s: None)
    is_away = True

    def answer(_: Any) -> Reply:
        return JSONResponse({"error": {"message": "starting"}}, 503) if is_away else "yes"

    with model_server(answer) as server:
        house = before(house, server, weights)
        with reacting(house) as said:
            wait_for(lambda: said)
            is_away = False
            wait_for(lambda: last_deployed(house, NAME))
        assert [each.type for each in told(house)] == ["DeploymentFailed", "ArtifactDeployed"]


def test_a_worker_takes_the_role(
    house: House,
    weights: Weights,
    empty_database: Database,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with model_server(lambda _: "yes") as server:
        for name, value in {
            "DATABASE_URL": empty_database.app_url,
            "OWNER_URL": empty_database.owner_url,
            "MODELS": str(house.settings.models),
            "MODEL": "m1",
            "MODEL_URL": server.url,
            "MODEL_BASE": weights.base.digest,
        }.items():
            monkeypatch.setenv(f"FLYWHEEL_{name}", value)
        assert run_command(["worker", "--roles", "reactor", "--until-empty", "--deployment", NAME]) == 0
    assert "vllm serves base@0 as openai:m1" in capsys.readouterr().err
    assert [each.type for each in told(house)] == ["ArtifactDeployed"]


LOST = LogUnavailable(actual="gone")
LOST.__cause__ = psycopg.OperationalError("gone")


@pytest.mark.parametrize(
    "problem",
    [
        LOST,
        StatementEnded(actual="a lock", code="55P03"),
        DatabaseRefused(actual="no space", code="53100"),
        ProjectionParked(projection="champions", position=1, actual="a fold"),
    ],
)
def test_a_champion_that_the_log_did_not_give_at_first_is_loaded_later(
    house: House, problem: FlywheelError, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries, ended = [problem], threading.Event()

    def failing_at_first(*_: Any) -> None:
        if tries:
            raise tries.pop()
        ended.set()
        raise OutageTooLong(waited_s=1, actual="gone")

    server: Any = SimpleNamespace(model_of=lambda _: pytest.fail("nothing is loaded here"))
    monkeypatch.setattr(reactor, "deploy_champion", failing_at_first)
    with pytest.raises(OutageTooLong):  # the second try, whose end the worker is told
        react(house, NAME, server, list[str]().append, ended, True)


def test_a_server_is_looked_at_in_steps_of_the_clock_that_is_handed_in(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reactor, "LOOK_S", 5.0)
    clock, looks = [0.0], list[float]()

    class Turns(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:  # the clock moves instead
            clock[0] += 2.0
            return clock[0] > 13.0

    def restore(_: str) -> bool:
        looks.append(clock[0])
        return False

    server: Any = SimpleNamespace(model_of=lambda _: Scripted(lambda _: "OK"), restore=restore)
    react(house, NAME, server, list[str]().append, Turns(), True, lambda: clock[0])
    assert looks == [0.0, 6.0, 12.0]
