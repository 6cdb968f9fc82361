"""The champion as an alias of a registry of models: over a registry in memory, and over an MLflow server where it is.

`FLYWHEEL_TEST_MLFLOW` names a Python that has `mlflow`; its versions of other libraries are not ours.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx2
import pytest

from api.cli.main import run_command
from api.house import House
from api.serving import mirror
from api.serving.errors import RegistryFailed
from api.serving.mirror import mirror_champion, mirror_until
from api.serving.mlflow_registry import MlflowRegistry
from eventlog.events import ChampionPointed
from eventlog.store import Append
from tests.conftest import Database
from tests.golden.test_golden_samples import sample

GIVEN = os.environ.get("FLYWHEEL_TEST_MLFLOW")
REAL = None if GIVEN is None else str(Path.cwd() / GIVEN)
"""Named from the root, because the server is started in another folder; its link is what makes it an environment."""

SECRET = "hunter2-registry-password"


class Refusal(Exception):
    """An error as MLflow raises it, whose text quotes what was sent."""

    def __init__(self, code: str) -> None:
        super().__init__(f"{code}: sent with {SECRET}")
        self.error_code = code


class Versions(list[Any]):
    token = None


@dataclass
class Kept:
    """What a registry holds, and where its next call fails."""

    versions: list[SimpleNamespace] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    fails_at: str | None = None


class FakeClient:
    """The part of MLflow's client that is used, over what a registry holds."""

    kept: Kept

    def __init__(self, tracking_uri: str, registry_uri: str) -> None:
        assert tracking_uri == registry_uri

    def _call(self, name: str) -> Kept:
        self.kept.calls.append(name)
        if name == self.kept.fails_at:
            raise Refusal("INTERNAL_ERROR")
        return self.kept

    def create_registered_model(self, name: str, description: str) -> None:
        if self._call("create_registered_model").calls.count("create_registered_model") > 1:
            raise Refusal("RESOURCE_ALREADY_EXISTS")

    def get_registered_model(self, name: str) -> Any:
        return SimpleNamespace(tags=dict(self._call("get_registered_model").tags))

    def search_model_versions(self, where: str, max_results: int, page_token: Any) -> Versions:
        return Versions(self._call("search_model_versions").versions)

    def create_model_version(self, name: str, source: str, tags: dict[str, str], description: str) -> Any:
        versions = self._call("create_model_version").versions
        versions.append(SimpleNamespace(version=len(versions) + 1, source=source, tags=tags))
        return versions[-1]

    def get_model_version_by_alias(self, name: str, alias: str) -> Any:
        aliases = self._call("get_model_version_by_alias").aliases
        if alias not in aliases:
            raise Refusal("INVALID_PARAMETER_VALUE")
        return SimpleNamespace(version=aliases[alias])

    def set_registered_model_alias(self, name: str, alias: str, version: str) -> None:
        self._call("set_registered_model_alias").aliases[alias] = version

    def set_registered_model_tag(self, name: str, key: str, value: str) -> None:
        self._call("set_registered_model_tag").tags[key] = value


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    """A registry in memory, in place of MLflow."""
    found = Kept()
    package, errors = ModuleType("mlflow"), ModuleType("mlflow.exceptions")
    package.MlflowClient = type("Client", (FakeClient,), {"kept": found})  # type: ignore[attr-defined]
    errors.MlflowException = Refusal  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mlflow", package)
    monkeypatch.setitem(sys.modules, "mlflow.exceptions", errors)
    return found


def registry() -> MlflowRegistry:
    return MlflowRegistry("http://127.0.0.1:5000", "boats", "champion", "default")


def move(house: House, name: str) -> int:
    """Point at an artifact; the position of the move."""
    weights, _, upto = name.partition("@")
    plain = sample("ChampionPointed").model_dump(mode="json")
    plain["artifact"] |= {"weights": weights.removeprefix("ck-")}
    plain["artifact"]["memory"] |= {"upto": int(upto)}
    event = ChampionPointed.model_validate_json(json.dumps(plain | {"by": "operator", "evaluation": None}))
    house.store.append([Append("champion", (event,), "operator")])
    return int(house.store.head())


def held_by(kept: Kept) -> dict[str, str]:
    """Version by artifact."""
    return {each.tags["flywheel.artifact"]: str(each.version) for each in kept.versions}


def test_each_champion_becomes_a_version_and_the_present_one_has_the_alias(empty_house: House, kept: Kept) -> None:
    said: list[str] = []
    mirror_champion(empty_house, registry(), said.append)
    assert (kept.versions, kept.aliases, said) == ([], {}, [])
    names = ("base@0", "base@7", "base@0", "ck-3f9a1c22@7")
    positions = [move(empty_house, name) for name in names]
    mirror_champion(empty_house, registry(), said.append)
    assert held_by(kept) == {"base@0": "1", "base@7": "2", "ck-3f9a1c22@7": "3"}
    assert (kept.aliases, kept.tags) == ({"champion": "3"}, {"flywheel.default.champion": str(positions[-1])})
    assert kept.versions[1].tags["flywheel.since"] == str(positions[1])
    assert len(said) == 1
    before = len(kept.calls)
    mirror_champion(empty_house, registry(), said.append)
    assert not {"create_model_version", "set_registered_model_alias", "set_registered_model_tag"} & {
        *kept.calls[before:]
    }
    move(empty_house, "base@7")
    mirror_champion(empty_house, registry(), said.append)
    assert (len(kept.versions), kept.aliases) == (3, {"champion": "2"})


@pytest.mark.parametrize(
    "where", ["create_model_version", "set_registered_model_alias", "set_registered_model_tag", "search_model_versions"]
)
def test_what_ended_half_way_goes_on_and_makes_nothing_twice(empty_house: House, kept: Kept, where: str) -> None:
    move(empty_house, "base@0")
    move(empty_house, "base@7")
    kept.fails_at = where
    with pytest.raises(RegistryFailed) as failed:
        mirror_champion(empty_house, registry(), lambda _text: None)
    assert SECRET not in str(failed.value)
    assert failed.value.__cause__ is None
    kept.fails_at = None
    mirror_champion(empty_house, registry(), lambda _text: None)
    assert held_by(kept) == {"base@0": "1", "base@7": "2"}
    assert kept.aliases == {"champion": "2"}


def test_an_alias_that_somebody_moved_is_put_back(empty_house: House, kept: Kept) -> None:
    move(empty_house, "base@0")
    mirror_champion(empty_house, registry(), lambda _text: None)
    kept.aliases["champion"] = "9"
    mirror_champion(empty_house, registry(), lambda _text: None)
    assert kept.aliases == {"champion": "1"}


def test_a_follower_outlives_a_registry_that_is_away_and_never_holds_up_the_log(
    empty_house: House, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "_FIRST_RETRY_S", 0.0)
    monkeypatch.setattr(mirror, "PAUSE_S", 0.0)
    move(empty_house, "base@0")
    kept.fails_at, ended = "get_registered_model", Event()
    said: list[str] = []

    def hear(text: str) -> None:
        said.append(text)
        if len(said) == 3:
            move(empty_house, "base@7")  # the log takes a move while the registry is away
            kept.fails_at = None
        if "base@7" in text:
            ended.set()

    mirror_until(empty_house, registry(), hear, ended)
    assert [("Next try" in text) for text in said] == [True, True, True, False]
    assert kept.aliases == {"champion": "2"}


def test_what_is_no_registry_is_refused_without_its_password(
    empty_database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    for address in (f"http://me:{SECRET}@127.0.0.1:5000", "file:///tmp/registry", "nonsense"):
        assert run_command(["champion", "mirror", "--registry", address, "--model", "boats"]) == 64
        said = capsys.readouterr().err
        assert "expected http(s)://HOST" in said
        assert SECRET not in said
    assert run_command(["champion", "mirror", "--registry", "http://127.0.0.1:5000", "--model", "a'b"]) == 64
    monkeypatch.setitem(sys.modules, "mlflow", None)
    assert run_command(["champion", "mirror", "--registry", "http://127.0.0.1:5000", "--model", "boats"]) == 1
    assert "pip install 'flywheel[mlflow]'" in capsys.readouterr().err


@pytest.fixture
def mlflow_server(tmp_path: Path) -> Iterator[str]:
    """The address of an MLflow server of the package itself, with a database of its own."""
    if REAL is None:
        pytest.skip("FLYWHEEL_TEST_MLFLOW names no Python with mlflow: `make test-mlflow` installs one")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    words += ["--backend-store-uri", f"sqlite:///{tmp_path}/mlflow.db"]
    told = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}
    with (tmp_path / "mlflow.log").open("w") as log:
        process = subprocess.Popen(
            [REAL, *words], cwd=tmp_path, env=told, stdout=log, stderr=log, start_new_session=True
        )
        try:
            _await(f"http://127.0.0.1:{port}/health", process, tmp_path / "mlflow.log")
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)


def _await(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(log.read_text()[-3000:])
        try:
            if httpx2.get(address, trust_env=False, timeout=5).is_success:
                return
        except httpx2.HTTPError:
            time.sleep(0.3)
    raise AssertionError(log.read_text()[-3000:])


MIRROR = """
import sys
sys.path.append({libraries!r})
from api.cli.main import main
main(["champion", "mirror", "--registry", {address!r}, "--model", "boats", "--follow"])
"""


@pytest.mark.timeout(600)
@pytest.mark.costly("a real MLflow server and ten mirrors, most of them killed; only `make test-mlflow` has one")
def test_moves_reach_an_mlflow_server_across_kills_of_the_mirror(
    empty_house: House, empty_database: Database, mlflow_server: str, tmp_path: Path
) -> None:
    assert REAL is not None
    code = "import site; print(site.getsitepackages()[0])"
    libraries = subprocess.run([REAL, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    told = {**os.environ, "FLYWHEEL_DATABASE_URL": empty_database.app_url, "FLYWHEEL_HOME": str(tmp_path / "home")}
    told |= {"MLFLOW_TRACKING_USERNAME": "me", "MLFLOW_TRACKING_PASSWORD": SECRET}
    names = ["base@0", *(f"base@{number}" for number in range(10, 16)), "base@0", "ck-3f9a1c22@15"]
    log = tmp_path / "mirror.log"
    for number, name in enumerate(names):
        move(empty_house, name)
        with log.open("a") as out:
            words = [sys.executable, "-c", MIRROR.format(libraries=libraries, address=mlflow_server)]
            mirroring = subprocess.Popen(words, env=told, stdout=out, stderr=out)
            if number % 3:  # killed at some point of its work, or before it
                time.sleep(0.9 * number)
            else:
                _await_alias(mlflow_server, name, mirroring, log)
            mirroring.kill()
            mirroring.wait(60)
    with log.open("a") as out:
        words = [sys.executable, "-c", MIRROR.format(libraries=libraries, address=mlflow_server)]
        mirroring = subprocess.Popen(words, env=told, stdout=out, stderr=out)
        _await_alias(mlflow_server, names[-1], mirroring, log)
        mirroring.send_signal(signal.SIGINT)
        assert mirroring.wait(60) == 130
    versions = _ask(mlflow_server, "model-versions/search", filter="name='boats'", max_results=200)["model_versions"]
    artifacts = [tag["value"] for each in versions for tag in each["tags"] if tag["key"] == "flywheel.artifact"]
    assert sorted(artifacts) == sorted(set(names))
    assert SECRET not in log.read_text()


def _await_alias(address: str, name: str, mirroring: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    found: Any = None
    while time.monotonic() < deadline:
        assert mirroring.poll() is None, log.read_text()[-3000:]
        answer = httpx2.get(
            f"{address}/api/2.0/mlflow/registered-models/alias",
            params={"name": "boats", "alias": "champion"},
            trust_env=False,
        )
        found = answer.json()
        tags = found.get("model_version", {}).get("tags", [])
        if {"key": "flywheel.artifact", "value": name} in tags:
            return
        time.sleep(0.2)
    raise AssertionError((name, found, log.read_text()[-3000:]))


def _ask(address: str, path: str, **params: Any) -> dict[str, Any]:
    answer = httpx2.get(f"{address}/api/2.0/mlflow/{path}", params=params, trust_env=False)
    found: dict[str, Any] = answer.raise_for_status().json()
    return found
