"""A base as GGUF in llama.cpp's own server, with the challenger that a request or the deployment names.

Deploy targets carry this module with `plan`, `weights_folder`, the errors and the package files above them, and nothing
else of this project: it imports only those and, on use, xllamacpp.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any, Final

from eventlog.weights_folder import file_digest

from .errors import ChallengerUnfit
from .plan import Artefact, ServedBase, ServingPlan, challenger_from_suite, plan_serving

GGUF: Final = b"GGUF"
MOST_SERVERS: Final = 2
"""Servers in memory: the base's and that of the challenger that was asked last."""

Start = Callable[[Sequence[str], int], Any]
"""Starts a server with the arguments of a plan and a context of so many tokens."""


def look_up_file(path: PurePosixPath) -> Artefact | None:
    """The file or folder at a path, with the digest of a file's bytes, which are read once until the file changes."""
    place = Path(path)
    if place.is_dir():
        return Artefact(is_folder=True, digest="")
    if not place.is_file():
        return None
    return Artefact(is_folder=False, digest=file_digest(place))


def start_server(arguments: Sequence[str], context: int) -> Any:
    """A llama.cpp server in this process. Raises ChallengerUnfit if it does not load what the arguments name."""
    import xllamacpp  # noqa: PLC0415 an extra, imported on use

    params = xllamacpp.CommonParams()
    params.n_ctx, params.use_jinja, params.verbosity = context, True, -1
    waiting = list(arguments)
    while waiting:
        option = waiting.pop(0)
        match option:
            case "-m":
                params.model.path = waiting.pop(0)
            case "--mmproj":
                params.mmproj.path = waiting.pop(0)
            case "--lora" | "--lora-scaled":
                adapter = xllamacpp.CommonAdapterLoraInfo()
                adapter.path = waiting.pop(0)
                adapter.scale = float(waiting.pop(0)) if option == "--lora-scaled" else 1.0
                params.lora_adapters = [adapter]
            case _:
                raise ChallengerUnfit(actual=f"the argument {option}", expected="one that the plan gives")
    try:
        return xllamacpp.Server(params)
    except RuntimeError as problem:
        said = f"llama.cpp cannot load {' '.join(arguments)} ({problem})"
        raise ChallengerUnfit(actual=said, expected="complete GGUF files of one base") from problem


class GgufRunner:
    """Answers chats by a base or by a challenger on it. Thread-safe.

    `digest` is the SHA-256 that the base's file must have. `fixed` is the challenger of the whole deployment
    (FLYWHEEL_LORA_ADAPTER), None if requests name theirs. Raises ChallengerUnfit.
    """

    def __init__(
        self,
        base: ServedBase,
        digest: str,
        mounts: Mapping[str, PurePosixPath],
        *,
        fixed: str | None = None,
        context: int = 8192,
        start: Start = start_server,
    ) -> None:
        found = look_up_file(PurePosixPath(base.model))
        if found is None or found.digest != digest:
            actual = "nothing" if found is None else f"a file with the digest {found.digest}"
            raise ChallengerUnfit(actual=f"at {base.model} lies {actual}", expected=f"the base {digest}")
        self._base, self._mounts, self._fixed, self._context, self._start = base, dict(mounts), fixed, context, start
        self._servers: OrderedDict[tuple[str, ...], Any] = OrderedDict()
        self._lock = Lock()

    def load(self) -> None:
        """Load what every request gets, so that the first one does not wait. Raises ServingRefused."""
        self._server({})

    def answer(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The chat completion of a body in OpenAI's form; its fields with an underscore choose a challenger.

        Raises ServingRefused.
        """
        suite = {name: value for name, value in body.items() if name.startswith("_")}
        asked = {name: value for name, value in body.items() if not name.startswith("_")}
        found: dict[str, Any] = self._server(suite).handle_chat_completions(asked)
        return found

    def _server(self, suite: Mapping[str, Any]) -> Any:
        """The server for a request, loaded at its first use; one whose file changed is loaded anew."""
        wanted = challenger_from_suite(suite, self._fixed)
        digests: list[str] = []

        def look_up(path: PurePosixPath) -> Artefact | None:
            found = look_up_file(path)
            if found is not None:
                digests.append(found.digest)
            return found

        plan = plan_serving(self._base, wanted, self._mounts, look_up, PurePosixPath("/nowhere"))
        _refuse_folder(plan)
        key = (*plan.arguments, *digests)
        with self._lock:
            server = self._servers.pop(key, None)
            while server is None and len(self._servers) >= MOST_SERVERS:
                self._servers.popitem(last=False)
            self._servers[key] = found = server or self._start(plan.arguments, self._context)
        return found


def _refuse_folder(plan: ServingPlan) -> None:
    """Raise ChallengerUnfit for an adapter that would have to be converted: targets have nothing to do it with."""
    if plan.convert is not None:
        expected = "a .gguf file, as `flywheel checkpoint publish --form gguf-adapter` writes it"
        raise ChallengerUnfit(actual=f"the adapter is the folder {plan.convert}", expected=expected)
