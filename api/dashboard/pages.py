"""Pages: templates rendered with what every page knows, and the headers that keep a page to itself."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from .figures import FILTERS

PREFIX: Final = "/ui"
"""Prefix of the pages; `/` leads there."""

_FOLDER = Path(__file__).parent
STATIC: Final = _FOLDER / "static"

HELP: Final = _FOLDER / "help"
"""The documentation, where `make docs` has built it."""

NAVIGATION: Final = (
    ("overview", "/", "Overview"),
    ("runs", "/runs", "Runs"),
    ("memory", "/memory", "Memory"),
    ("gate", "/gate", "Gate"),
    ("champions", "/champions", "Champions"),
    ("groups", "/groups", "Groups"),
    ("datasets", "/datasets", "Datasets"),
    ("training", "/training", "Training"),
    ("log", "/log", "Log"),
)
"""Name, address below PREFIX and title of each page; the first letter of the name is its key after `g`."""

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
HELP_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "style-src 'self' 'unsafe-inline'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


@cache
def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(FILTERS)
    return found


def render_page(request: Request, template: str, *, http_status: int = 200, **values: Any) -> HTMLResponse:
    """A page. `area` among the values says which part of the navigation it belongs to."""
    as_of = request.query_params.get("as_of")
    known = {
        "session": getattr(request.state, "session", None),
        "role": getattr(request.state, "role", None),
        "navigation": NAVIGATION,
        "area": "",
        "as_of": as_of,
        "position": None,
        "link": lambda path, **query: address_of(request, path, as_of=as_of, **query),
        "here": request.url.path,
        "has_help": HELP.is_dir(),
        "root": str(request.scope.get("root_path", "")).removesuffix(PREFIX),
    }
    text = _environment().get_template(template).render({**known, **values})
    return HTMLResponse(text, status_code=http_status, headers=HEADERS)


def address_of(request: Request, path: str, **query: Any) -> str:
    """The address of a page: a path below PREFIX, with what of the query is not None or empty."""
    kept = {name: value for name, value in query.items() if value not in (None, "")}
    root = str(request.scope.get("root_path", ""))
    return root + quote(path) + (f"?{urlencode(kept)}" if kept else "")


def redirect_to(request: Request, path: str, **query: Any) -> RedirectResponse:
    """Send the browser to a page after a form."""
    return RedirectResponse(address_of(request, path, **query), status_code=303, headers=HEADERS)
