"""Client of another Flywheel's predictions: ask for a run, follow it, read what it recorded, call it off."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import httpx2
from pydantic import SecretStr, ValidationError

from eventlog.blobs import Blob
from eventlog.errors import first_fault
from eventlog.events import EVENT_TYPES, AnyEvent

from ...models.errors import BadEndpoint
from ...models.wire import EndpointAnswer, Patience
from ...tls import tls_context
from .errors import RemoteAnswerBroken, RemoteRefused, RemoteUnreachable

_LONGEST_SAID: Final = 500
_PAGE: Final = 200
_CONFLICT: Final = "PredictionDiffers"


class RemoteStatus(EndpointAnswer):
    """How a run stands there. `passed` and `failed` were graded; `reason` says why another one was not."""

    run: str
    status: str
    is_over: bool
    reason: str | None = None


class KeyInUse(Exception):
    """The idempotency key names an earlier run, which was asked for on another instance."""

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run


class RemoteFlywheel:
    """Another Flywheel, by its address and a token of the role operate. Thread-safe.

    What it does not answer is asked again; every request may be repeated, because a run is named by its key. Raises
    BadEndpoint.
    """

    def __init__(
        self,
        url: str,
        token: SecretStr,
        patience: Patience | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        if not self.url.startswith(("http://", "https://")) or "@" in self.url:
            raise BadEndpoint(url=self.url, actual="it is not of that form", expected="http:// or https:// with a host")
        self._patience, self._pause = patience or Patience(), pause
        self._pool = httpx2.Client(
            base_url=f"{self.url}/v1",
            headers={"Authorization": f"Bearer {token.get_secret_value()}"},
            timeout=self._patience.timeout_s,
            trust_env=False,
            verify=tls_context(),
            follow_redirects=False,
        )

    def close(self) -> None:
        """Close the pool of connections."""
        self._pool.close()

    def request_run(self, body: Mapping[str, Any], key: str) -> RemoteStatus:
        """Ask for a run. The same key and body again give the same run. Raises KeyInUse, RemoteFailure."""
        return self._status("POST /v1/predict", "/predict", body, {"Idempotency-Key": key})

    def status_of(self, run: str) -> RemoteStatus:
        """How a run stands. Raises RemoteFailure."""
        return self._status("the status of a run", f"/predict/{quote(run, safe='')}")

    def cancel_run(self, run: str) -> RemoteStatus:
        """Call a run off. One that is over stays as it is. Raises RemoteFailure."""
        return self._status("the cancelling of a run", f"/predict/{quote(run, safe='')}/cancel", {})

    def resume_run(self, run: str) -> RemoteStatus:
        """Have a run go on that workers gave up. Raises RemoteFailure."""
        return self._status("the resuming of a run", f"/predict/{quote(run, safe='')}/resume", {})

    def events_of(self, run: str) -> tuple[AnyEvent, ...]:
        """The events of a run in order; those of unknown types are left out. Raises RemoteFailure."""
        found: list[AnyEvent] = []
        after: int | None = 0
        while after is not None:
            path = f"/predict/{quote(run, safe='')}/logs?after={after}&limit={_PAGE}"
            page = self._json("the events of a run", self._send("the events of a run", path))
            try:
                known = [each["event"] for each in page["events"] if each["type"] in EVENT_TYPES]
                kinds: list[Any] = [EVENT_TYPES[each["type"]] for each in known]
                found += [kind.model_validate_json(json.dumps(each)) for kind, each in zip(kinds, known, strict=True)]
                after = page["next"]
            except (ValidationError, LookupError, TypeError) as problem:
                raise self._broken("the events of a run", str(problem)[:_LONGEST_SAID], "events") from problem
        return tuple(found)

    def blob_at(self, address: str) -> Blob:
        """The blob of an address, checked against it. Raises RemoteFailure."""
        answer = self._send("a blob", f"/blobs/{quote(address, safe='')}")
        blob = Blob(answer.headers.get("content-type", ""), answer.content)
        if blob.digest != address:
            raise self._broken("a blob", f"bytes of the address {blob.digest}", f"those of {address}")
        return blob

    def _status(
        self, operation: str, path: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> RemoteStatus:
        answer = self._send(operation, path, body, headers)
        try:
            return RemoteStatus.model_validate_json(answer.content)
        except ValidationError as problem:
            raise self._broken(operation, first_fault(problem), "the status of a run") from problem

    def _send(
        self, operation: str, path: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx2.Response:
        """The answer with a status below 300, after retries. Raises KeyInUse, RemoteFailure."""
        wait_s = self._patience.first_wait_s
        for tries in range(1, self._patience.tries + 1):
            is_last = tries == self._patience.tries
            try:
                method = "GET" if body is None else "POST"
                answer = self._pool.request(method, path, json=body, headers=headers)
            except httpx2.HTTPError as problem:
                if is_last:
                    actual = f"{type(problem).__name__} {problem}".strip()
                    timeout_s = self._patience.timeout_s
                    raise RemoteUnreachable(url=self.url, actual=actual, tries=tries, timeout_s=timeout_s) from problem
            else:
                is_busy = answer.status_code == HTTPStatus.TOO_MANY_REQUESTS or answer.is_server_error
                if not is_busy or is_last:
                    return self._check(operation, answer)
            self._pause(wait_s)
            wait_s = min(2 * wait_s, self._patience.longest_wait_s)
        raise AssertionError("unreachable: the last try returns or raises")

    def _check(self, operation: str, answer: httpx2.Response) -> httpx2.Response:
        if answer.is_success:
            return answer
        try:
            error = json.loads(answer.content)["error"]
            said, kind, facts = str(error["message"]), error["type"], error.get("facts", {})
        except (ValueError, LookupError, TypeError):
            said, kind, facts = answer.text, "", {}
        if kind == _CONFLICT and isinstance(earlier := facts.get("actual"), str):
            raise KeyInUse(earlier)
        said = said[:_LONGEST_SAID]
        raise RemoteRefused(url=self.url, operation=operation, actual=answer.status_code, said=said)

    def _json(self, operation: str, answer: httpx2.Response) -> dict[str, Any]:
        try:
            found = json.loads(answer.content)
        except ValueError as problem:
            raise self._broken(operation, "no JSON", "a JSON object") from problem
        if not isinstance(found, dict):
            raise self._broken(operation, "another shape", "a JSON object")
        return found

    def _broken(self, operation: str, actual: str, expected: str) -> RemoteAnswerBroken:
        return RemoteAnswerBroken(url=self.url, operation=operation, actual=actual, expected=expected)
