"""Checks of a request's path, query and headers, made before an endpoint reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args
from urllib.parse import parse_qsl, unquote_to_bytes

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.datastructures import Headers, QueryParams

Fault = dict[str, Any]

_DIGITS = re.compile(r"-?[0-9]+")
_BYTES = "latin-1"
"""The encoding in which any bytes are text, and back."""


async def check_parameters(request: Request) -> None:
    """Refuse what no endpoint may see. A dependency of the whole application, so that no endpoint can forget it.

    It refuses query parameters that the endpoint does not have, text that PostgreSQL cannot hold, and integers that are
    not written in decimal digits (pydantic reads `+5`, `1_000` and `5.0` too). Raises RequestValidationError, which
    holds all faults.
    """
    route: APIRoute = request.scope["route"]
    found = [*_unknown(request, route), *find_unstorable(request), *_type_faults(request, route)]
    if found:
        raise RequestValidationError(found)


def _unknown(request: Request, route: APIRoute) -> Iterator[Fault]:
    known = sorted({field.alias for field in _fields(route.dependant, "query")})
    expected = f"one of {', '.join(known)}" if known else "none"
    for name in dict.fromkeys(request.query_params):
        if name not in known:
            yield _fault("extra_forbidden", "query", name, f"This parameter is unknown; expected {expected}")


def find_unstorable(request: Request) -> Iterator[Fault]:
    """Where the path, the query or a header holds text that PostgreSQL cannot hold."""
    raw, query = request.scope.get("raw_path"), request.scope["query_string"].decode(_BYTES)
    path = request.scope["path"].encode(errors="surrogatepass") if raw is None else unquote_to_bytes(raw)
    given = [("path", "", path)]
    for name, value in parse_qsl(query, keep_blank_values=True, encoding=_BYTES):
        content = f"{name}={value}".encode(_BYTES)
        given.append(("query", content.decode(errors="replace").partition("=")[0], content))
    for where, name, content in given:
        if (problem := _problem_of(content)) is not None:
            yield _fault("string_unstorable", where, name, f"Expected Unicode text, but it holds {problem}")
    for header, content in request.headers.raw:
        if b"\0" in content:  # a header is Latin-1, so that all but NUL can be held
            yield _fault("string_unstorable", "header", header.decode(_BYTES), "Expected text without a NUL character")


def _problem_of(content: bytes) -> str | None:
    try:
        return "a NUL character" if "\0" in content.decode() else None
    except UnicodeDecodeError:
        return "bytes that are not UTF-8"


def _type_faults(request: Request, route: APIRoute) -> Iterator[Fault]:
    places: tuple[tuple[str, QueryParams | Headers], ...] = (
        ("query", request.query_params),
        ("header", request.headers),
    )
    for where, given in places:
        for field in _fields(route.dependant, where):
            is_integer = int in (field.field_info.annotation, *get_args(field.field_info.annotation))
            if is_integer and not all(_DIGITS.fullmatch(value) for value in given.getlist(field.alias)):
                yield _fault("int_parsing", where, field.alias, "Expected an integer, written in decimal digits")


def _fields(part: Dependant, where: str) -> Iterator[Any]:
    """The parameters in the query or in the header, of an endpoint and of everything that it depends on."""
    yield from part.query_params if where == "query" else part.header_params
    for needed in part.dependencies:
        yield from _fields(needed, where)


def _fault(kind: str, where: str, name: str, message: str) -> Fault:
    return {"type": kind, "loc": (where, name) if name else (where,), "msg": message}
