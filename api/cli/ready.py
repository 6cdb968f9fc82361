"""Whether the server on this machine is ready, as the health check of a container asks it."""

from __future__ import annotations

from typing import Final

import httpx2

from ..errors import NothingServed

_TIMEOUT_S: Final = 4.0


def ask_ready(port: int, *, is_tls: bool) -> None:
    """Return if the server on a port of this machine is ready. Raises NothingServed.

    It is asked as the settings say, then the other way, because a certificate may be an option of `flywheel serve`. The
    certificate is not looked at: its name is not this machine's, and the connection leads nowhere else.
    """
    schemes = ("https", "http") if is_tls else ("http", "https")
    actual = ""
    with httpx2.Client(verify=False, trust_env=False, timeout=_TIMEOUT_S) as client:
        for scheme in schemes:
            try:
                answer = client.get(f"{scheme}://127.0.0.1:{port}/readyz")
            except httpx2.HTTPError as error:
                actual = actual or f"{scheme}: {type(error).__name__}"
                continue
            if answer.is_success:
                return
            actual = f"{scheme}: {answer.status_code}"
    raise NothingServed(actual=actual, expected=f"127.0.0.1:{port} that is ready")
