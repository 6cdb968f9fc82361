"""The shop of the tutorial with tools beside its pages: each of its instances has an MCP server at `mcp`.

This file is appended to the shop's own code, up to its server, and started as a process.
"""

# mypy: disable-error-code="name-defined,untyped-decorator"
# ruff: noqa: F821 (the names of the shop's own code)

import json
from typing import Any
from urllib.parse import parse_qs

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

server = MCPServer("shop")


def shop_of(ctx: Context) -> dict[str, Any]:
    """The shop that a call is for, by its address."""
    found: dict[str, Any] = SHOPS[ctx.request_context.request.path_params["name"]]  # type: ignore[union-attr]
    return found


@server.tool("list-jackets")
def list_jackets(ctx: Context) -> str:
    """List the jackets with their prices in dollars."""
    return json.dumps(shop_of(ctx)["prices"])


@server.tool()
def buy(jacket: str, ctx: Context) -> str:
    """Buy a jacket."""
    shop = shop_of(ctx)
    if jacket not in shop["prices"]:
        raise ToolError(f"no jacket is called {jacket}")
    shop["bought"].append(jacket)
    return "Bought."


@server.custom_route("/__env__/{call}", ["GET", "POST"])
async def administer(request: Request) -> Response:
    """The contract, answered by the shop's own code."""
    call = request.path_params["call"]
    if call == "health":
        return JSONResponse({"ok": True, "site": "shop", "instances": len(SHOPS), "tasks": [TASK]})
    if request.headers.get("X-Env-Admin") != TOKEN:
        return JSONResponse({"error": "the token is wrong", "code": "unauthorized"}, 401)
    name, query = request.headers.get("X-Env-Instance"), parse_qs(request.url.query)
    status, said = answer(call, name, query, await request.body())
    return JSONResponse(said, status)


@server.custom_route("/i/{name}/{path:path}", ["GET", "POST"])
async def show(request: Request) -> Response:
    """A page, as the shop itself shows it."""
    name, path = request.path_params["name"], request.path_params["path"]
    said = page(SHOPS[name], f"/i/{name}", path, request.method == "POST") if name in SHOPS else None
    body = f"<!doctype html><title>Shop</title>{said}" if said else "No such page."
    return HTMLResponse(body, 200 if said else 404)


if __name__ == "__main__":
    app = server.streamable_http_app(streamable_http_path="/i/{name}/mcp")
    uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="error")
