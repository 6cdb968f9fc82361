"""A server that speaks the protocol of `openenv-core` without it: the game of tests/openenv_guess.py."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from threading import Thread
from typing import Any

from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

TEXT = {"guess": {"title": "Guess", "type": "string"}, "metadata": {"type": "object"}}
FIELDS = {"row": {"type": "integer"}, "column": {"type": "integer"}, "metadata": {"type": "object"}}


def drawn_by(seed: int) -> int:
    """The number of a seed."""
    return random.Random(seed).randrange(1_000)  # noqa: S311 (repeatable)


class Game:
    """The game of tests/openenv_guess.py, in the messages that its server was seen to send."""

    def __init__(self) -> None:
        self.number, self.count = 0, 0

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        match message["type"]:
            case "reset":
                self.number, self.count = drawn_by(message["data"]["seed"]), 0
                return self.seen(f"a number, {self.number % 10} at its end", None)
            case "step" if "guess" not in message["data"]:
                told = {"message": "1 validation error for GuessAction", "code": "VALIDATION_ERROR"}
                return {"type": "error", "data": told}
            case "step":
                return self.judge(str(message["data"]["guess"]).strip())
            case _:
                return {"type": "state", "data": {"episode_id": "e", "step_count": self.count}}

    def judge(self, guess: str) -> dict[str, Any]:
        self.count += 1
        if guess == str(self.number):
            return self.seen("right", 1.0 - self.count / 10, done=True)
        number = int(guess) if guess.isdecimal() else -1
        return self.seen("more" if number < self.number else "less", 0.0, done=self.count == 3)

    def seen(self, said: str, reward: float | None, *, done: bool = False) -> dict[str, Any]:
        observation = {"said": said, "left": 3 - self.count}
        return {"type": "observation", "data": {"observation": observation, "reward": reward, "done": done}}


@contextmanager
def stand_in(fields: dict[str, Any] = TEXT, *, spoils: str | None = None) -> Iterator[str]:
    """The address of a server of the protocol. With `spoils` each of its answers on the session is this text."""

    def page(_connection: ServerConnection, request: Request) -> Response | None:
        pages: dict[str, Any] = {
            "/schema": {"action": {"properties": fields}},
            "/metadata": {"name": "guess", "description": "Guess a number."},
        }
        if request.path not in pages:
            return None
        body = json.dumps(pages[request.path]).encode()
        headers = Headers({"Content-Length": str(len(body)), "Connection": "close"})
        return Response(HTTPStatus.OK, "OK", headers, body)

    sessions: list[ServerConnection] = []

    def play(connection: ServerConnection) -> None:
        sessions.append(connection)
        game = Game()
        try:
            for message in connection:
                connection.send(spoils or json.dumps(game.answer(json.loads(message))))
        except ConnectionClosed:
            return

    with serve(play, "127.0.0.1", 0, process_request=page) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            for session in sessions:
                session.close()
            thread.join()
