"""Checkpoints on a vLLM server: each becomes an adapter there at its first use, under the name of its digest.

vLLM has to run with `--enable-lora`, `VLLM_ALLOW_RUNTIME_LORA_UPDATING=True`, and `--logprobs-mode processed_logprobs`
where logprobs are trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from threading import Condition
from typing import Final

from eventlog.weights_folder import read_checkpoint

from ..errors import AdapterUnfit, ModelUnknown, RequestRejected
from ..local.network import BASE
from ..model import Completion, CompletionRequest, Offers
from ..openai import OpenAI, OpenAISettings
from ..wire import Endpoint, EndpointAnswer, Patience
from .errors import AdaptersFixed

MOST_ADAPTERS: Final = 8
"""Most checkpoints that stay loaded on a server. The least recently used idle one leaves first."""
_SHOWN: Final = 12
_LOADED: Final = "already"


@dataclass(frozen=True, slots=True)
class VllmAdapters:
    """Folder in which a server finds checkpoints, and how many it may hold.

    `folder_of` returns the folder of a checkpoint here, `place_of` the same folder as the server sees it. `base` is the
    digest of the base that the server serves.
    """

    base: str
    folder_of: Callable[[str], Path]
    place_of: Callable[[Path], PurePosixPath] = PurePosixPath
    most: int = MOST_ADAPTERS


class _Card(EndpointAnswer):
    id: str


class _Listing(EndpointAnswer):
    """The models that a server lists, adapters among them."""

    data: tuple[_Card, ...]


class VllmServer:
    """One vLLM server. `model_of` gives the model of some weights. Thread-safe. Raises BadEndpoint."""

    def __init__(self, settings: OpenAISettings, adapters: VllmAdapters, patience: Patience | None = None) -> None:
        self._settings, self._adapters = settings, adapters
        self._patience = patience
        self._endpoint = Endpoint(
            settings.base_url,
            settings.api_key,
            secret_header="Authorization",  # noqa: S106 (the name of a header)
            secret_prefix="Bearer ",  # noqa: S106
            headers=settings.extra_headers,
            patience=patience,
        )
        self._models: dict[str, VllmModel] = {}
        self._loaded: dict[str, int] = {}  # requests under way, in the order of last use
        self._moving: set[str] = set()  # weights that are being loaded or unloaded
        self._turn = Condition()

    def model_of(self, weights: str) -> VllmModel:
        """The model of these weights: `base`, or the digest of a checkpoint, which is loaded now.

        Raises AdapterUnfit, CheckpointMissing, CheckpointAltered, AdaptersFixed, ModelFailure.
        """
        with self._turn:
            model = self._models.get(weights)
            if model is None:
                named = self._settings.model_copy(update={"model": self.served_name(weights)})
                model = self._models[weights] = VllmModel(self, weights, OpenAI(named, self._patience))
        with self.hold(weights):
            return model

    @contextmanager
    def hold(self, weights: str) -> Iterator[None]:
        """Have some weights loaded until the block ends. Raises as `model_of`."""
        if weights == BASE:
            yield
            return
        while not self._take(weights):
            pass
        try:
            yield
        finally:
            with self._turn:
                self._loaded[weights] -= 1
                self._turn.notify_all()

    def _take(self, weights: str) -> bool:
        """Count a request of weights, which are loaded if need be; False after a wait for others.

        The server is told without the lock, so that requests of other weights begin and end meanwhile.
        """
        with self._turn:
            if weights in self._loaded:
                self._loaded[weights] = self._loaded.pop(weights) + 1
                return True
            leaving = self._oldest_idle()
            if weights in self._moving or (leaving is None and not self._has_room()):
                self._turn.wait()
                return False
            moving = {weights} if leaving is None else {weights, leaving}
            self._moving |= moving
            self._loaded.pop(leaving or "", None)
        after: dict[str, int] = {} if leaving is None else {leaving: 0}
        try:
            if leaving is not None:
                with suppress(ModelUnknown):  # the server was restarted since
                    self._endpoint.tell("unload_lora_adapter", {"lora_name": self.served_name(leaving)})
                after = {}
            self._tell(weights)
            after = {weights: 1}
        finally:
            with self._turn:
                self._moving -= moving
                self._loaded |= after
                self._turn.notify_all()
        return True

    def _has_room(self) -> bool:
        return len(self._loaded) + len(self._moving) < max(1, self._adapters.most)

    def _oldest_idle(self) -> str | None:
        """The adapter that has to leave before another one is loaded; None: none has to, or none can."""
        if self._has_room():
            return None
        return next((name for name, requests in self._loaded.items() if not requests), None)

    def load_again(self, weights: str) -> None:
        """Have the server load weights that it has lost: it was restarted. Raises as `model_of`."""
        self._tell(weights)

    def restore(self, weights: str) -> bool:
        """Have the server load weights that it does not list, as after its restart; True if it had lost them.

        Raises as `model_of`.
        """
        name = self.served_name(weights)
        if weights == BASE or any(each.id == name for each in self._endpoint.get("models", _Listing).data):
            return False
        with self._turn:
            is_new = weights not in self._loaded
        with self.hold(weights):
            return is_new or self._tell(weights)

    def _tell(self, weights: str) -> bool:
        """Check a checkpoint's digest and base, and have the server load it; False if it was there already."""
        folder = read_checkpoint(self._adapters.folder_of(weights), weights)
        folder.check()
        if folder.base != self._adapters.base:
            actual, expected = f"it was trained on the base {folder.base}", f"one trained on {self._adapters.base}"
            raise AdapterUnfit(path=folder.path, actual=actual, expected=expected)
        body = {"lora_name": self.served_name(weights), "lora_path": str(self._adapters.place_of(folder.path))}
        try:
            self._endpoint.tell("load_lora_adapter", body)
        except ModelUnknown as problem:
            raise AdaptersFixed(url=self._endpoint.url, said=problem.facts["said"]) from problem
        except RequestRejected as problem:
            if _LOADED not in str(problem.facts["said"]):  # another process loaded it, under the same digest
                raise
            return False
        return True

    def served_name(self, weights: str) -> str:
        """The name by which the server knows some weights."""
        model = self._settings.model
        return model if weights == BASE else f"{model}+{weights[:_SHOWN]}"

    def close(self) -> None:
        """Close all connections. What the server has loaded stays."""
        for model in self._models.values():
            model.close()
        self._endpoint.close()


class VllmModel:
    """A Model: a base or a checkpoint on a vLLM server."""

    def __init__(self, server: VllmServer, weights: str, model: OpenAI) -> None:
        self.weights = weights
        self._server, self._model = server, model

    @property
    def name(self) -> str:
        """See Model."""
        return self._model.name

    @property
    def offers(self) -> Offers:
        """See Model."""
        return self._model.offers

    def complete(self, request: CompletionRequest) -> Completion:
        """See Model.complete. Weights that left the server are loaded again. Raises as `VllmServer.model_of`."""
        with self._server.hold(self.weights):
            try:
                return self._model.complete(request)
            except ModelUnknown:
                if self.weights == BASE:
                    raise
                self._server.load_again(self.weights)
            return self._model.complete(request)

    def close(self) -> None:
        """Close its connections."""
        self._model.close()
