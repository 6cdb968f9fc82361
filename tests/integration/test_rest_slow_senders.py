"""Forty slow senders on real connections to `flywheel serve`: they hold the places of their own token alone."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from api.house import House
from api.tokens import issue
from tests.conftest import Database
from tests.golden.test_golden_samples import sample

SECONDS = 4
"""What a body gets to arrive."""

SENDERS, PLACES = 40, 32
COMMAND = [sys.executable, "-c", "from api.cli.main import main; main()", "serve", "--port", "0"]


@pytest.fixture
def address(empty_database: Database, tmp_path: Path) -> Iterator[tuple[str, int]]:
    """Where a `flywheel serve` of this test listens."""
    env = {
        **os.environ,
        "FLYWHEEL_DATABASE_URL": empty_database.app_url,
        "FLYWHEEL_OWNER_URL": empty_database.owner_url,
        "FLYWHEEL_HOME": str(tmp_path / "home"),
        "FLYWHEEL_BODY_SECONDS": str(SECONDS),
        "FLYWHEEL_BODIES_PER_TOKEN": str(PLACES),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    with subprocess.Popen(COMMAND, env=env, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = next(line for line in child.stdout if line.startswith("Serving on "))
        host, _, port = said.split()[2].removeprefix("http://").rstrip(".").partition(":")
        yield host, int(port)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=30)


def begin_append(address: tuple[str, int], token: str) -> socket.socket:
    """A connection on which the first byte of an append was sent, and nothing follows."""
    head = ("POST /v1/events HTTP/1.1", "Host: here", f"Authorization: Bearer {token}", "Content-Length: 1000", "", "{")
    sender = socket.create_connection(address, timeout=30)
    sender.sendall("\r\n".join(head).encode())
    return sender


def await_answers(senders: Sequence[socket.socket], amount: int) -> dict[socket.socket, int]:
    """The statuses of the first answers."""
    found: dict[socket.socket, int] = {}
    while len(found) < amount:
        ready = select.select([each for each in senders if each not in found], [], [], 30)[0]
        assert ready
        found |= {each: int(each.recv(1000).split()[1]) for each in ready}
    return found


def test_an_append_is_answered_while_slow_senders_hold_every_place_of_another_token(
    empty_house: House, address: tuple[str, int]
) -> None:
    slow, other = (issue(empty_house.store, name, "test", "operate") for name in ("slow", "other"))
    body = {"stream": "prices", "events": [sample("PriceBookSet", version=2).model_dump(mode="json")]}
    with ExitStack() as opened:
        senders = [opened.enter_context(begin_append(address, slow)) for _ in range(SENDERS)]
        refused = await_answers(senders, SENDERS - PLACES)
        assert Counter(refused.values()) == {429: SENDERS - PLACES}
        waiting = [each for each in senders if each not in refused]
        answer = httpx.post(
            "http://{}:{}/v1/events".format(*address),
            json=body,
            headers={"Authorization": f"Bearer {other}"},
            trust_env=False,
            timeout=30,
        )
        assert (answer.status_code, select.select(waiting, [], [], 0)[0]) == (201, [])
        assert Counter(await_answers(waiting, PLACES).values()) == {408: PLACES}
