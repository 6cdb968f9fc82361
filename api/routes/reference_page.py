"""The interactive page on REST at `/docs`: Swagger UI out of a package, so that it works without a network."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

PACKAGE: Final = "fastapi_offline"
"""The distribution whose files are served; its code is not imported."""

_OWN: Final = Path(__file__).parent / "reference"
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


@cache
def _files() -> dict[str, Path]:
    """The files of the page by name; Swagger UI's are those of the package."""
    package = find_spec(PACKAGE)
    static = Path(package.origin).parent / "static" if package is not None and package.origin else _OWN
    return {
        "swagger-ui-bundle.js": static / "swagger-ui-bundle.js",
        "swagger-ui.css": static / "swagger-ui.css",
        "start.js": _OWN / "start.js",
    }


def reference_routes() -> list[Route]:
    """The page and its files. They say nothing of a log, so they need no token; the description that it shows does."""
    return [Route("/docs", _send_page), Route("/docs/{name}", _send_file)]


async def _send_page(_request: Request) -> Response:
    return FileResponse(_OWN / "page.html", media_type="text/html", headers=_HEADERS)


async def _send_file(request: Request) -> Response:
    found = _files().get(request.path_params["name"])
    if found is None or not found.is_file():
        raise HTTPException(404)
    return FileResponse(found, headers=_HEADERS)
