"""The site and the suite of docs/tutorial-own-site.md, as the page has them: a site that is not ours."""

from __future__ import annotations

import os
import re
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[1] / "docs" / "tutorial-own-site.md"
PORT: Final = "8950"
TOKEN: Final = "FLYWHEEL_ENV_SHOP_TOKEN"
_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(kind: str, page: Path = PAGE) -> list[str]:
    """The blocks of a page in this language, in order."""
    return [text for found, text in _BLOCK.findall(page.read_text("utf-8")) if found == kind]


@dataclass(frozen=True)
class OwnSite:
    """The shop of the page, running. `suite` is its suite file."""

    url: str
    port: str
    token: str
    suite: Path

    @property
    def place(self) -> tuple[str, ...]:
        """The options that say where it is and which variable has its token."""
        return ("--url", self.url, "--token-variable", TOKEN)


CHEAPEST: Final = 'min(shop["prices"], key=shop["prices"].get)'
"""The right answer of the shop, in its code."""


@contextmanager
def serve_own_site(folder: Path, answer: str = CHEAPEST, code: str | None = None) -> Iterator[OwnSite]:
    """Serve the shop of the page in a process of its own, on a free port, perhaps with another right answer.

    With `code` it is another shop.
    """
    (own,), (suite,) = blocks("python"), blocks("toml")
    assert CHEAPEST in own
    (folder / "shop.py").write_text(own.replace(CHEAPEST, answer) if code is None else code, "utf-8")
    (folder / "shop.toml").write_text(suite, "utf-8")
    token, port = secrets.token_hex(16), free_port()
    command = [sys.executable, str(folder / "shop.py"), port]
    with (folder / "shop.log").open("wb") as log:
        process = subprocess.Popen(command, env={**os.environ, TOKEN: token}, cwd=folder, stderr=log)
    try:
        wait_for_port(port)
        yield OwnSite(f"http://127.0.0.1:{port}", port, token, folder / "shop.toml")
    finally:
        process.kill()
        process.wait()


def free_port() -> str:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def wait_for_port(port: str) -> None:
    """Wait until something listens on a port. Raises TimeoutError."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", int(port))) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(port)
