"""The tools that a site's own MCP server offers on an instance, as the actions of a policy.

A site that serves them has the server (streamable HTTP) at `mcp` below the instance's first page. A tool is an open
action whose argument is a JSON object of the tool's schema, so what is called is recorded step by step, and the
site's oracle grades the instance as it grades any other.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

import httpx2

from eventlog.events import Step

from ..envs.contract import Instance
from ..envs.episodes.episode import ActionSpec
from ..envs.episodes.errors import LibraryMissing
from ..envs.errors import ContractBroken, EnvironmentDown
from ..learning.quoting import quote_text
from .open_actions import FINISH
from .surface import Acted, Surface

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal
    from mcp import Client
    from mcp.types import CallToolResult, Tool

PLACE: Final = "mcp"
TIMEOUT_S: Final = 30.0
CHARACTERS: Final = 20_000
"""Most characters of a tool's answer that an agent is shown and that is recorded."""

MOST_TOOLS: Final = 64
LONGEST_ABOUT: Final = 2_000
MOST_ABOUT: Final = 40_000
"""Most tools that are offered, and characters of what one of them and all together are said to do and take."""

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LONGEST_STEM: Final = 60
"""Characters of an action's name before its number, which the bound of ActionName leaves room for."""

_SAID: Final = "the site says of it "
_TAGS: Final = str.maketrans({sign: f"\\u{ord(sign):04x}" for sign in "<>|"})
"""Signs of tags and chat templates, escaped as JSON reads them."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ToolSurface:
    """See Surface. Nothing is rendered; what is seen is the last tool's answer. `tools` are their names by action."""

    address: str
    portal: BlockingPortal
    client: Client
    actions: tuple[ActionSpec, ...]
    tools: Mapping[str, str]
    seen: str = "No tool has been called yet."

    def act(self, step: Step) -> Acted:
        """See Surface. An argument that a tool refuses is an outcome, and the tool's answer says why."""
        if step.type == "finish":
            return Acted("ok")
        if step.type != "act" or step.action not in self.tools:
            return Acted("no_such_action")
        given = _object_of(step.value)
        if given is None:
            self.seen = "The argument is no JSON object."
            return Acted("invalid_argument")
        answer = self._call(self.tools[step.action], given)
        self.seen = _text_of(answer)[:CHARACTERS]
        return Acted("invalid_argument" if answer.is_error else "ok", led=True)

    def text(self) -> str:
        """See Surface."""
        return self.seen

    def view(self) -> str:
        """See Surface. The same as `text`."""
        return self.seen

    def screenshot(self) -> bytes | None:
        """See Surface."""
        return None

    def _call(self, name: str, given: dict[str, Any]) -> CallToolResult:
        try:
            answer: CallToolResult = self.portal.call(self.client.call_tool, name, given, TIMEOUT_S)
        except Exception as problem:  # of the protocol, the connection, or an answer that breaks its tool's schema
            raise _down(self.address, name, problem) from problem
        return answer


@contextmanager
def over_tools(instance: Instance, page_headers: Mapping[str, str]) -> Iterator[Surface]:
    """An Opening for the tools of a site. Raises EnvironmentDown, ContractBroken, NoPages, LibraryMissing."""
    address = urljoin(instance.url, PLACE)
    try:
        from anyio.from_thread import start_blocking_portal  # noqa: PLC0415 - an extra, imported on use
        from mcp import Client  # noqa: PLC0415
        from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415
    except ImportError as problem:
        raise LibraryMissing(environment=address, actual="mcp", expected="mcp") from problem
    with ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal())
        web = httpx2.AsyncClient(headers=dict(page_headers), timeout=TIMEOUT_S, trust_env=False)
        stack.callback(_close, address, portal.call, web.aclose)
        client = Client(streamable_http_client(address, http_client=web), read_timeout_seconds=TIMEOUT_S)
        try:
            opened = portal.wrap_async_context_manager(client)
            opened.__enter__()
            # What a run raises must not reach the protocol's tasks, which would wrap it.
            stack.callback(_close, address, opened.__exit__, None, None, None)
            tools = portal.call(_list_tools, client)
        except Exception as problem:  # a group of whatever the protocol's tasks raised
            raise _down(address, "tools/list", problem) from problem
        if not tools or len(tools) > MOST_TOOLS:
            raise ContractBroken(
                url=address, operation="tools/list", actual=f"{len(tools)} tools", expected=f"1 to {MOST_TOOLS}"
            )
        names = actions_by_name(tool.name for tool in tools)
        if len(names) < len(tools):
            raise ContractBroken(
                url=address, operation="tools/list", actual="two tools of one name", expected="a name for each tool"
            )
        longest = min(LONGEST_ABOUT, MOST_ABOUT // len(tools))
        actions = tuple(_action_of(names[tool.name], tool, longest) for tool in tools)
        yield ToolSurface(address, portal, client, actions, {action: name for name, action in names.items()})


def actions_by_name(tools: Iterable[str]) -> dict[str, str]:
    """The open name of each tool's action, by the tool's own name. Actions are in snake case, tools need not be.

    What is no action's name, or taken by one before it in the list or by the end of a run, gets a number.
    """
    found: dict[str, str] = {}
    for tool in dict.fromkeys(tools):
        snake = re.sub(r"[^a-z0-9]+", "_", _HUMP.sub("_", tool).lower()).strip("_")
        stem = (snake if snake[:1].isalpha() else f"tool_{snake}".strip("_"))[:_LONGEST_STEM]
        numbered = (stem if number == 1 else f"{stem}_{number}" for number in count(1))
        found[tool] = next(each for each in numbered if each not in {FINISH, *found.values()})
    return found


def _close(address: str, close: Callable[..., object], *given: object) -> None:
    """Close a connection. A failure is logged: it must not take the place of the one that ended the run."""
    try:
        close(*given)
    except (ExceptionGroup, OSError, RuntimeError, httpx2.HTTPError) as problem:  # the protocol's tasks raise groups
        _log.warning("%s", _down(address, "close", problem))


def _object_of(argument: str | None) -> dict[str, Any] | None:
    """The JSON object of an argument, empty without one; None if it is none."""
    try:
        given = json.loads(argument or "{}")
    except (ValueError, RecursionError):
        return None
    return given if isinstance(given, dict) else None


async def _list_tools(client: Client) -> list[Tool]:
    """All tools of a server, page by page; no more pages than tell that there are too many."""
    page = await client.list_tools()
    tools = [*page.tools]
    while page.next_cursor is not None and page.tools and len(tools) <= MOST_TOOLS:
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
    return tools


def _action_of(name: str, tool: Tool, longest: int) -> ActionSpec:
    """What a site says stands in a system prompt, so it is quoted: in quotes that it cannot close, and in JSON."""
    fields = tool.input_schema.get("properties")
    said = quote_text(tool.description or tool.title or tool.name, longest // 2 if fields else longest - len(_SAID))
    if not fields:
        return ActionSpec(name, _SAID + said, "none")
    schema = json.dumps(fields, sort_keys=True).translate(_TAGS)
    return ActionSpec(name, f"{_SAID}{said}, and of the fields of its object: {schema}"[:longest], "json")


def _text_of(answer: CallToolResult) -> str:
    texts = [part.text for part in answer.content if part.type == "text"]
    return "\n".join(texts) or "(no text)"


def _down(address: str, operation: str, problem: BaseException) -> EnvironmentDown:
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    actual = f"{type(problem).__name__} {problem}".strip()
    return EnvironmentDown(url=address, operation=operation, actual=actual, timeout_s=TIMEOUT_S)
