"""Another Flywheel for tests: its own log, `flywheel serve` and `flywheel worker` as processes, and a checkpoint.

Its base gives up at once; its checkpoint finds the phone number. The checkpoint has tensors that nobody reads, because
a model server of ours stands in for vLLM.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from agents.envs.provider import Site
from api.house import House
from api.sweeps.plan import first_facts
from api.tokens import issue
from eventlog.weights_folder import DESCRIPTION, TENSORS
from tests.admitted import admitted
from tests.conftest import Database
from tests.model_server import ModelServer
from trainer.checkpoint import Checkpoint, CheckpointManifest, load_checkpoint, write_manifest
from trainer.request import Lora, SftConfig

BASE: Final = "b" * 64
_OTHER: Final = "d" * 64
_FLYWHEEL: Final = [sys.executable, "-c", "from api.cli.main import main; main()"]
ENOUGH_S: Final = 120


def unread_checkpoint(folder: Path) -> Checkpoint:
    """A checkpoint of BASE as it is published: below its digest, in `peft`."""
    making = folder / "making"
    making.mkdir(parents=True)
    files = {DESCRIPTION: json.dumps({"r": 4}).encode(), TENSORS: b"nobody reads these"}
    for name, body in files.items():
        (making / name).write_bytes(body)
    manifest = CheckpointManifest(
        base=BASE,
        parent=None,
        dataset=_OTHER,
        upto=99,
        rows=_OTHER,
        tokenizer=_OTHER,
        chat_template=_OTHER,
        lora=Lora(rank=4, alpha=8),
        targets=(),
        config=SftConfig(steps=1, learning_rate="0.01"),
        runtime={},
        files={name: sha256(body).hexdigest() for name, body in files.items()},
    )
    digest = write_manifest(making, manifest)
    place = folder / digest / "peft"
    place.parent.mkdir()
    return load_checkpoint(making.rename(place), digest)


@dataclass
class RemoteSide:
    """Another Flywheel: its log, the address it serves at, a token of it, and how its commands are started."""

    house: House
    url: str
    token: str
    environment: Mapping[str, str]
    site: Site

    @contextmanager
    def working(self) -> Iterator[None]:
        """A worker of it that plays policies until the block ends."""
        where = ("--url", self.site.url, "--admin-url", self.site.admin_url)
        with _running([*_FLYWHEEL, "worker", "--executor", "policy", *where], self.environment):
            yield

    def events(self, *types: str) -> list[Any]:
        """Events of its log."""
        return [each.event for each in self.house.store.read(types=types)]

    def settings(self) -> dict[str, str]:
        """The settings of whoever has runs played by it."""
        return {"FLYWHEEL_REMOTE_URL": self.url, "FLYWHEEL_REMOTE_TOKEN": self.token}


@contextmanager
def remote_side(house: House, database: Database, site: Site, server: ModelServer, store: Path) -> Iterator[RemoteSide]:
    """Serve another Flywheel until the block ends. Its log has the marketplace admitted."""
    admitted(house.store, "marketplace")
    first_facts(house)
    token = issue(house.store, "caller", "test", "operate")
    environment = {
        **os.environ,
        "FLYWHEEL_DATABASE_URL": database.app_url,
        "FLYWHEEL_OWNER_URL": database.owner_url,
        "FLYWHEEL_KEYS": str(database.keys),
        "FLYWHEEL_HOME": str(store.parent / "remote-home"),
        "FLYWHEEL_MODELS": str(store.parent / "remote-models"),
        "FLYWHEEL_MOUNTS": json.dumps({"store": str(store)}),
        "FLYWHEEL_MODEL": "m1",
        "FLYWHEEL_MODEL_URL": server.url,
        "FLYWHEEL_MODEL_BASE": BASE,
        "FLYWHEEL_MODEL_TOKEN_IDS": "true",
        "FLYWHEEL_ENV_ADMIN_TOKEN": site.admin_token,
    }
    with _running([*_FLYWHEEL, "serve", "--port", "0"], environment) as serving:
        yield RemoteSide(house, _address(serving), token, environment, site)


def _address(serving: subprocess.Popen[str]) -> str:
    assert serving.stdout is not None
    said = []
    for line in serving.stdout:
        said.append(line)
        if (found := re.search(r"http://127\.0\.0\.1:\d+", line)) is not None:
            return found[0]
    raise AssertionError(f"it named no address: {said}")


@contextmanager
def _running(command: list[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    child = subprocess.Popen(command, env=dict(environment), stdout=pipe, stderr=subprocess.STDOUT, text=True)
    try:
        yield child
    finally:
        child.send_signal(signal.SIGINT)
        try:
            child.communicate(timeout=ENOUGH_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
