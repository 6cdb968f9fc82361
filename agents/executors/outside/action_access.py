"""Actions in an environment without pages, for an agent in a process of its own: an address that is good for one run.

The agent posts `{"action": NAME, "argument": TEXT}` and gets what came of it and what is seen now.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Final

from ...envs.page_server import serve_handler
from ...plans import UNTYPED

LONGEST_ACTION: Final = 65_536
"""Most bytes of a request."""

TakeAction = Callable[[str, str | None], Mapping[str, Any]]
"""Takes an action with its argument. Thread-safe."""


class UnfitAction(Exception):
    """The body of a request names no action; the text says why."""


@contextmanager
def serve_actions(take: TakeAction) -> Iterator[str]:
    """The address for the actions of one run, on this machine alone, until the end of the block."""
    path = f"/{secrets.token_hex(24)}"
    with serve_handler(_handler_at(path, take), "actions of a run") as address:
        yield f"{address}{path}"


def _handler_at(path: str, take: TakeAction) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 30

        def do_POST(self) -> None:
            if self.path != path:
                self._answer(HTTPStatus.NOT_FOUND, {"error": "this is no address of a run that is being played"})
                return
            try:
                action, argument = read_action(self._body())
            except UnfitAction as problem:
                self._answer(HTTPStatus.BAD_REQUEST, {"error": str(problem)})
                return
            self._answer(HTTPStatus.OK, take(action, argument))

        def _body(self) -> bytes:
            told = self.headers.get("Content-Length", "")
            if not told.isdecimal() or int(told) > LONGEST_ACTION:
                raise UnfitAction(f"a body of at most {LONGEST_ACTION} bytes with its length is expected")
            return self.rfile.read(int(told))

        def _answer(self, status: HTTPStatus, said: Mapping[str, Any]) -> None:
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler


def read_action(body: bytes) -> tuple[str, str | None]:
    """Action and argument of a request; an object is taken as its JSON. Raises UnfitAction."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise UnfitAction("the body is no JSON") from problem
    action, argument = (told.get("action"), told.get("argument")) if isinstance(told, dict) else (None, None)
    if isinstance(argument, dict | list):
        argument = json.dumps(argument, ensure_ascii=False)
    if not isinstance(action, str) or not (argument is None or isinstance(argument, str)):
        raise UnfitAction('{"action": NAME, "argument": TEXT or null} is expected')
    if UNTYPED.search(f"{action}{argument or ''}"):
        raise UnfitAction("it holds signs that nobody can type")
    return action, argument
