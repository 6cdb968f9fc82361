"""Where a reading command gets its answers: from the log here, or from a server, as the same structs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar
from urllib.parse import quote

import typer

from eventlog.errors import BlobErased, FlywheelError
from projections.errors import BackwardDifference, NotThereYet

from ..errors import BadArtifactName, BadPosition, DatasetErased, NoChampion, RunSealed, Unknown
from .errors import ServerForeign, ServerRefused, ServerSilent, ServerSlow, TokenUnset
from .output import open_project, print_line
from .progress_lines import say_while

if TYPE_CHECKING:
    import httpx2

    from projections.engine.views import PostgresViews

    from ..house import House
    from ..queries.events import LoggedEvent

T = TypeVar("T")
Query = Callable[["House", "PostgresViews"], T]

Server = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="URL", help="Ask this server, with the token in FLYWHEEL_TOKEN, instead of the log here."
    ),
]

POSITION: Final = "X-Log-Position"
_MOST: Final = 1000
_PART: Final = 1 << 20
_CONNECTING_S: Final = 20.0
_SILENT_S: Final = 600.0
"""How long a server may send nothing: some answers it has to make first, from many events."""

_SAME: Final[Mapping[str, type[FlywheelError]]] = {
    kind.__name__: kind
    for kind in (
        *(Unknown, NoChampion, BadPosition, BadArtifactName, NotThereYet, BackwardDifference),
        *(BlobErased, DatasetErased, RunSealed),
    )
}
"""Errors of a server that are raised here as they would be by the log."""


@dataclass(frozen=True)
class LogSource:
    """The log of this project."""

    house: House
    as_of: str | None

    @cached_property
    def views(self) -> PostgresViews:
        """The views at the position."""
        return self.house.views_at(self.as_of)

    @property
    def upto(self) -> int:
        """The position that the answers are of."""
        return int(self.views.upto)

    def renew(self) -> None:
        """Answer as of the head from now on."""
        self.__dict__["views"] = self.house.views()

    def read(self, kind: type[T], path: str, query: Query[T], **_params: object) -> T:  # noqa: ARG002
        """What the query gives."""
        return query(self.house, self.views)

    def pages(
        self,
        kind: type[Any],  # noqa: ARG002
        name: str,
        path: str,  # noqa: ARG002
        query: Query[Any],
        after: object,  # noqa: ARG002 the query knows it
        limit: int | None,  # noqa: ARG002
        **_params: object,
    ) -> tuple[list[Any], Any]:
        """The items of the one page that the query gives."""
        found = query(self.house, self.views)
        return list(getattr(found, name)), found.next


class ServerSource:
    """A server of this version, asked over REST with a token."""

    def __init__(self, server: str, http: httpx2.Client, as_of: str | None) -> None:
        self.server = server
        self.upto = 0
        self._http = http
        self._as_of = as_of

    def read(self, kind: type[T], path: str, query: Query[T] | None = None, **params: object) -> T:  # noqa: ARG002
        """The answer of a path. Raises ServerSilent, ServerRefused, ServerForeign, and what the log would raise."""
        with say_while(f"waiting for {self.server}", print_line):
            return self._ask(kind, path, params)

    def _ask(self, kind: type[T], path: str, params: Mapping[str, object]) -> T:
        answer = self._get(path, {}, params)
        self.upto = int(answer.headers.get(POSITION, 0))
        return self._decode(kind, path, answer.content)

    def _decode(self, kind: type[T], path: str, body: bytes) -> T:
        from msgspec import ValidationError as OtherShape
        from pydantic import ValidationError as OtherEvent

        from projections.engine.decoders import decoder_of

        from ..queries.encoding import decode_value

        try:
            shape: Any = kind
            found: T = decoder_of(shape, decode_value).decode(body)
        except (OtherShape, OtherEvent, KeyError, ValueError) as error:
            expected = f"{kind.__name__} of {path}"
            raise ServerForeign(server=self.server, actual=f"something else ({error})", expected=expected) from error
        return found

    def pages(
        self,
        kind: type[Any],
        name: str,
        path: str,
        query: Query[Any] | None,  # noqa: ARG002
        after: object,
        limit: int | None,
        **params: object,
    ) -> tuple[list[Any], Any]:
        """The items of as many pages as it takes."""
        found: list[Any] = []
        with say_while(f"waiting for {self.server}", print_line) as note:
            while True:
                most = _MOST if limit is None else min(_MOST, limit - len(found))
                page = self._ask(kind, path, {**params, "after": after, "limit": most})
                found += getattr(page, name)
                after = page.next
                if after is None or (limit is not None and len(found) >= limit):
                    return found, after
                note(f"{len(found):,} {name} are here")

    def fetch(self, path: str, headers: Mapping[str, str], params: Mapping[str, object]) -> httpx2.Response:
        """A whole answer with status 200. Raises ServerSilent, ServerRefused, and what the log would raise."""
        with say_while(f"waiting for {self.server}", print_line):
            return self._get(path, headers, params)

    def _get(self, path: str, headers: Mapping[str, str], params: Mapping[str, object]) -> httpx2.Response:
        import httpx2

        wanted = {"as_of": self._as_of, **params}
        given: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
        try:
            answer = self._http.get(path, params=given, headers=dict(headers))
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._explain_loss(path, error) from error
        if answer.status_code != httpx2.codes.OK:
            raise _error_of(self.server, answer)
        return answer

    def download(self, path: str, media: str, file: Path) -> None:
        """Write the rows of a path to a file, in this media type."""
        import httpx2

        try:
            with (
                say_while(f"waiting for {self.server}", print_line) as note,
                self._http.stream("GET", path, headers={"Accept": media}) as answer,
                file.open("wb") as out,
            ):
                if answer.status_code != httpx2.codes.OK:
                    answer.read()
                    raise _error_of(self.server, answer)
                for part in answer.iter_bytes(_PART):
                    out.write(part)
                    note(f"{out.tell() / _PART:,.1f} MiB are here")
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._explain_loss(path, error) from error

    def follow(self, params: Mapping[str, object]) -> Iterator[LoggedEvent]:
        """Each event of the log's stream, until the server ends it. Raises as `read` does."""
        import httpx2

        from ..queries.events import LoggedEvent

        given: dict[str, Any] = {name: value for name, value in params.items() if value is not None}
        try:
            with self._http.stream("GET", "/v1/events/stream", params=given) as answer:
                if answer.status_code != httpx2.codes.OK:
                    answer.read()
                    raise _error_of(self.server, answer)
                for line in answer.iter_lines():
                    if line.startswith("data: "):
                        yield self._decode(LoggedEvent, "/v1/events/stream", line.removeprefix("data: ").encode())
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._explain_loss("/v1/events/stream", error) from error

    def _explain_loss(self, path: str, error: Exception) -> FlywheelError:
        """What to say of a request that got no whole answer."""
        import httpx2

        if isinstance(error, httpx2.ReadTimeout):
            return ServerSlow(server=self.server, path=path, seconds=int(_SILENT_S))
        return ServerSilent(server=self.server, actual=f"{type(error).__name__}: {error}")


Source = LogSource | ServerSource


@contextmanager
def open_source(server: str | None, as_of: str | None = None) -> Iterator[Source]:
    """The server at a URL, or without one the log of this project. Raises TokenUnset."""
    if server is None:
        with open_project() as house:
            yield LogSource(house, as_of)
        return
    with open_server(server, as_of) as source:
        yield source


@contextmanager
def open_server(server: str, as_of: str | None = None) -> Iterator[ServerSource]:
    """The server at a URL, asked with the token of the settings. Raises TokenUnset."""
    import httpx2

    from agents.tls import tls_context

    from ..settings import read_settings

    token = read_settings().token
    if token is None:
        raise TokenUnset
    headers = {"Authorization": f"Bearer {token.get_secret_value()}"}
    try:
        patience = httpx2.Timeout(_CONNECTING_S, read=_SILENT_S)
        http = httpx2.Client(base_url=server, headers=headers, timeout=patience, verify=tls_context(), trust_env=False)
    except (httpx2.InvalidURL, ValueError) as error:
        raise ServerSilent(server=server, actual=str(error)) from error
    with closing(http):
        yield ServerSource(server.rstrip("/"), http, as_of)


def refuse_options(server: str | None, given: Mapping[str, object], why: str) -> None:
    """Raise BadParameter if options were given that need the log itself while a server is asked."""
    named = [name for name, value in given.items() if value]
    if server is not None and named:
        raise typer.BadParameter(f"{' and '.join(named)} with --server: {why}")


def quote_name(name: str) -> str:
    """A name as part of a path."""
    return quote(name, safe="/")


def _error_of(server: str, answer: httpx2.Response) -> FlywheelError:
    """The error that the log would raise, or one that says what the server answered."""
    try:
        error = answer.json()["error"]
        kind, message, facts = str(error["type"]), str(error["message"]), dict(error["facts"])
    except (ValueError, LookupError, TypeError):
        actual = f"{answer.status_code} without an error of ours"
        return ServerForeign(server=server, actual=actual, expected="an answer of the REST API")
    try:
        return _SAME[kind](**facts)
    except KeyError:  # another error, or facts of another version
        return ServerRefused(message=message.removesuffix("."), server=server, status=answer.status_code)
