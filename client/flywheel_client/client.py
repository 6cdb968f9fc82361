"""The client: what a program reads from a server, and the runs that it records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Literal, ParamSpec, Self, TypeVar, overload
from urllib.parse import quote

from . import recording
from .connection import ApiError, Connection, Unreachable
from .listing import Listing
from .records import (
    MICRO,
    Champion,
    Dataset,
    Event,
    Piece,
    Run,
    Slice,
    Verdict,
    read_piece,
    read_record,
    read_run,
)
from .tables import Progress, Rows

Memory = Literal["rewrites", "hints", "exemplars", "curriculum", "recipes", "skill_pieces", "instructions"]

P = ParamSpec("P")
T = TypeVar("T")


def connect(url: str, token: str, *, timeout: float = 30.0) -> Client:
    """A client of the server at a URL. It speaks first when it is asked something."""
    return Client(Connection(url, token, timeout=timeout))


class Client:
    """A server as a program sees it. Thread-safe. Every method raises ApiError and Unreachable.

    Reads take `as_of`, a log position or a time: two reads with the same one see the same log.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def __enter__(self) -> Self:
        """The client itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _t: TracebackType | None) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.connection.close()

    # Recording

    def run(
        self, task: str, *, run: str | None = None, group: str | None = None, environment: str = recording.ENVIRONMENT
    ) -> recording.ActiveRun:
        """A run of your own agent, to be used as a context. Runs of one `group` are compared with one another."""
        return recording.open_run(self.connection, task, run, group, environment)

    @overload
    def trace(self, function: Callable[P, T], /) -> Callable[P, T]: ...
    @overload
    def trace(self, /, *, task: str) -> Callable[[Callable[P, T]], Callable[P, T]]: ...
    def trace(self, function: Callable[..., Any] | None = None, /, *, task: str | None = None) -> Any:
        """Tell each call of a function: as a step of the run it happens in, else as a run of its own, of a `task`.

        The function may be a coroutine function. What it raises is told and raised again.
        """
        if function is None:
            return lambda named: recording.trace_function(lambda name: self.run(task or name), named)
        return recording.trace_function(self.run, function)

    def reward(self, run: str, score: float, *, passed: bool | None = None) -> None:
        """Close a run with its reward, from 0 to 1. It passed if the score is 1, unless told. Raises ValueError."""
        if not 0 <= score <= 1:
            raise ValueError(f"the score is {score}; expected one from 0 to 1")
        is_passed = score >= 1 if passed is None else passed
        recording.send_reward(self.connection, run, round(score * MICRO), is_passed)

    # Reading

    def runs(
        self,
        *,
        sweep: str | None = None,
        evaluation: str | None = None,
        template: str | None = None,
        status: str | None = None,
        environment: str | None = None,
        passed: bool | None = None,
        text: str | None = None,
        since: int | str | None = None,
        until: int | str | None = None,
        as_of: int | str | None = None,
    ) -> Listing[Run]:
        """Runs with their rewards, filtered."""
        params = {
            "sweep": sweep,
            "evaluation": evaluation,
            "template": template,
            "status": status,
            "environment": environment,
            "passed": passed,
            "text": text,
            "since": since,
            "until": until,
            "as_of": as_of,
        }
        return Listing(self.connection, "/v1/runs", "runs", read_run, params)

    def run_events(self, run: str, *, as_of: int | str | None = None) -> list[Event]:
        """The events of one run."""
        return list(Listing(self.connection, f"/v1/runs/{quote(run)}", "events", _reader(Event), {"as_of": as_of}))

    def datasets(self, *, as_of: int | str | None = None) -> Listing[Dataset]:
        """The frozen datasets, in order of digest."""
        return Listing(self.connection, "/v1/datasets", "datasets", _reader(Dataset), {"as_of": as_of})

    def slices(self, *, as_of: int | str | None = None) -> Listing[Slice]:
        """The groups registered as slices."""
        return Listing(self.connection, "/v1/slices", "slices", _reader(Slice), {"as_of": as_of})

    def rows(self, digest: str, *, progress: Progress | bool = False) -> Rows:
        """The rows of a dataset by its digest, or at least the first 8 digits; `progress=True` prints how far it is."""
        return Rows(self.connection, f"/v1/datasets/{quote(digest)}/rows", progress)

    def slice_rows(self, group: str, *, progress: Progress | bool = False) -> Rows:
        """The rows of a registered group."""
        return Rows(self.connection, f"/v1/slices/{quote(group)}/rows", progress)

    def register_slice(self, group: str, *, kind: str = "grpo", **query: Any) -> Slice:
        """Register the rows that a query selects from a group, at the head. Needs the role `operate`."""
        answer = self.connection.post("/v1/slices", {"query": {"kind": kind, "group": group, **query}})
        return read_record(Slice, answer["slice"])

    def champion(self, *, as_of: int | str | None = None) -> Champion | None:
        """The champion; None where none was pointed at yet."""
        try:
            answer = self.connection.get("/v1/champion", as_of=as_of)
        except ApiError as error:
            if error.kind == "NoChampion":
                return None
            raise
        return read_record(Champion, answer["champion"])

    def champion_history(self, *, as_of: int | str | None = None) -> list[Champion]:
        """Every move of the champion, oldest first."""
        return list(Listing(self.connection, "/v1/champion/history", "history", _read_move, {"as_of": as_of}))

    def verdicts(self, *, as_of: int | str | None = None) -> Listing[Verdict]:
        """The evaluations of the gate with their verdicts."""
        return Listing(self.connection, "/v1/verdicts", "verdicts", _reader(Verdict), {"as_of": as_of})

    def gate(self, benchmark: str, *, as_of: int | str | None = None) -> dict[str, Any]:
        """The ledger of a benchmark: its alpha, what was spent on which evaluation, and what is left."""
        ledger: dict[str, Any] = self.connection.get(f"/v1/benchmarks/{quote(benchmark)}/ledger", as_of=as_of)["ledger"]
        return ledger

    def memory(self, kind: Memory = "rewrites", *, as_of: int | str | None = None) -> Listing[Piece]:
        """The pieces of memory of one kind, with their records."""
        return Listing(self.connection, f"/v1/{kind}", kind, read_piece, {"as_of": as_of})

    def events(self, *, after: int = 0, stream: str | None = None, kind: str | None = None) -> Listing[Event]:
        """The events of the log after a position up to the head."""
        params = {"stream": stream, "type": kind, "after": after}
        return Listing(self.connection, "/v1/events", "events", _reader(Event), params)

    def follow(
        self, *, after: int | None = None, stream: str | None = None, kind: str | None = None
    ) -> Iterator[Event]:
        """Events as they are appended, from a position or from now on, without end. Lost connections are resumed."""
        place = self._head() if after is None else after
        misses = 0
        while True:
            try:
                for event in self._open_stream(place, stream, kind):
                    place, misses = event.position, 0
                    yield event
            except Unreachable:
                misses += 1
                if misses > 1:
                    raise

    def _open_stream(self, place: int, stream: str | None, kind: str | None) -> Iterator[Event]:
        import httpx2

        headers = {"Last-Event-ID": str(place)}
        with self.connection.stream("/v1/events/stream", headers, stream=stream, type=kind) as answer:
            try:
                for line in answer.iter_lines():
                    name, _, value = line.partition(": ")
                    if name == "data":
                        yield read_record(Event, json.loads(value))
            except httpx2.TransportError:
                return

    def _head(self) -> int:
        return int(self.connection.get("/healthz")["head"])


def _reader(kind: type[Any]) -> Callable[[Any], Any]:
    return lambda plain: read_record(kind, plain)


def _read_move(plain: Any) -> Champion:
    return read_record(Champion, plain["state"], since=plain["since"])
