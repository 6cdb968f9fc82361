"""A base model that runs in this process, and each checkpoint on it as a separate model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Final

from eventlog.events import Sampling
from eventlog.weights_folder import Base, read_base

from ..drawn_texts import DrawnText, TextRequest, Watcher, settled_text
from ..errors import BaseUnfit, RequestRejected
from ..model import Completion, CompletionRequest, Offers, Sample, Served, Token, refuse_unoffered
from .batches import Batches
from .dialogue import Dialogue
from .engine import ModelEngine
from .network import BASE, PREFIX, TransformersEngine
from .samples import Ask, SampledTokens

OFFERS: Final = Offers(logprobs=True, token_ids=True, seed=True, images=False, schema=False)
MOST_ADAPTERS: Final = 8
"""Most checkpoints that stay in memory beside their base. The least recently used one leaves first."""

_SHOWN: Final = 12
_REFUSED: Final = 400
_TOO_LARGE: Final = 413


def base_model_name(digest: str, prefix: str = PREFIX) -> str:
    """Name of an in-process base model in the log."""
    return f"{prefix}{digest[:_SHOWN]}"


class Host:
    """One base model in memory. Its weights are loaded by the engine, at the first request.

    At most `most_adapters` (at least 1) checkpoints stay in memory; one that has left is read again when it is asked.
    Those that `must_stay` names do not leave, even if there are more of them.
    Raises BaseMissing, BaseUnfit, LibrariesMissing.
    """

    def __init__(self, folder: Path, engine: ModelEngine | None = None, *, most_adapters: int = MOST_ADAPTERS) -> None:
        self._engine = TransformersEngine() if engine is None else engine
        self.folder: Base = read_base(folder)
        if not self.folder.sees_all:  # the batches would show such layers too many tokens
            actual, expected = "it has sliding-window attention", "full attention in every layer"
            raise BaseUnfit(path=folder, actual=actual, expected=expected)
        self.served = Served(self.folder.tokenizer, self.folder.chat_template, processed=True)
        self._engine.refuse_missing(self.folder.path)
        self.dialogue = Dialogue(self.folder)
        self.name = base_model_name(self.folder.digest, self._engine.prefix)
        self.batches = Batches(self.name, lambda: self._engine.load(self.folder), self._engine.threads)
        self.offers = replace(OFFERS, logprobs=self._engine.is_exact)
        self.must_stay: Callable[[str], bool] = lambda _: False
        self._base = LocalModel(self, BASE)
        self._most = max(1, most_adapters)
        self._adapted: dict[str, LocalModel] = {}  # in the order of their last use
        self._lock = Lock()

    def base(self) -> LocalModel:
        """The base model without an adapter."""
        return self._base

    def loaded_model(self, weights: str) -> LocalModel | None:
        """The model of these weights (`base` or a checkpoint's digest); None if they are not in memory."""
        return self._base if weights == BASE else self._adapted.get(weights)

    def adapted_model(self, digest: str, folder_of: Callable[[str], Path]) -> LocalModel:
        """The base model with the checkpoint of this digest, read at the first call from its `folder_of`.

        Concurrent callers block until it is loaded. Raises AdapterUnfit, CheckpointMissing, CheckpointAltered,
        DrawingFailed, and what `folder_of` does.
        """
        with self._lock:
            model = self._adapted.get(digest) or LocalModel(self, digest, folder_of)
            self._hold(model)
            return model

    def draw(self, model: LocalModel, asks: Sequence[Ask]) -> list[Future[SampledTokens]]:
        """Queue requests to one model, and read its checkpoint again if it has left the memory.

        Raises ModelClosed, and what `adapted_model` does.
        """
        with self._lock:
            self._hold(model)
            return [self.batches.draw(ask) for ask in asks]

    def _hold(self, model: LocalModel) -> None:
        """Have the model in memory as the last used one; let the least recently used one leave beyond the bound."""
        if model.folder_of is None:
            return
        if self._adapted.pop(model.weights, None) is None:
            self.batches.attach(self._engine.read_adapter(model.folder_of(model.weights), model.weights, self.folder))
        self._adapted[model.weights] = model
        may_leave = [each for each in self._adapted if each != model.weights and not self.must_stay(each)]
        for oldest in may_leave[: max(0, len(self._adapted) - self._most)]:
            del self._adapted[oldest]
            self.batches.detach(oldest)

    def close(self) -> None:
        """End the sampling thread. Pending requests fail with ModelClosed."""
        self.batches.close()


class LocalModel:
    """A Model: a base with or without an adapter. Its logprobs are those of the distribution sampled from.

    At temperature 0 that is one token, and its logprob is 0. The default seed is 0.
    """

    def __init__(self, host: Host, weights: str, folder_of: Callable[[str], Path] | None = None) -> None:
        self.name = host.name if weights == BASE else f"{host.name}+{weights[:_SHOWN]}"
        self.offers = host.offers
        self.weights = weights
        self.folder_of = folder_of
        self._host = host

    def complete(self, request: CompletionRequest) -> Completion:
        """See Model.complete. Raises RequestRejected if the prompt leaves no room for an answer, and as Host.draw."""
        return self._complete(request, None)

    def complete_watched(self, request: CompletionRequest, watcher: Watcher) -> Completion:
        """See Watchable. Raises as `complete`."""
        return self._complete(request, watcher)

    def continue_text(self, request: TextRequest, watcher: Watcher | None = None) -> Completion:
        """See Continuing. Raises as `complete`."""
        refuse_unoffered(self.name, self.offers, CompletionRequest((), request.sampling))
        dialogue, prompt = self._host.dialogue, request.prompt
        ids = dialogue.text_ids(prompt) if isinstance(prompt, str) else prompt
        known = self._host.folder.vocabulary
        if not ids or not all(0 <= each < known for each in ids):
            said = "its prompt is empty" if not ids else f"its prompt has token ids beyond the model's {known}"
            raise RequestRejected(url=self.name, actual=_REFUSED, said=said)
        return self._draw(ids, request.sampling, watcher)[0]

    def _complete(self, request: CompletionRequest, watcher: Watcher | None) -> Completion:
        refuse_unoffered(self.name, self.offers, request)
        sampling, dialogue = request.sampling, self._host.dialogue
        drawn_as = f"{self.weights} {sampling.temperature_micro} {sampling.top_p_micro} {sampling.seed or 0}"
        found, drawn = self._draw(dialogue.prompt(request.messages, drawn_as), sampling, watcher)
        for sample, each in reversed(list(zip(found.samples, drawn, strict=True))):
            dialogue.remember(request.messages, drawn_as, sample.text, each.ids)
        return found

    def _draw(
        self, prompt: tuple[int, ...], sampling: Sampling, watcher: Watcher | None
    ) -> tuple[Completion, list[SampledTokens]]:
        longest, dialogue = self._host.folder.longest, self._host.dialogue
        if len(prompt) + sampling.max_tokens > longest:
            said = f"{len(prompt)} tokens and {sampling.max_tokens} for the answer exceed a context of {longest}"
            raise RequestRejected(url=self.name, actual=_TOO_LARGE, said=said)
        asks = [
            Ask(
                self.weights, prompt, sampling, number, dialogue.ends, self._end_rule(number, prompt, sampling, watcher)
            )
            for number in range(sampling.samples)
        ]
        drawn = [future.result() for future in self._host.draw(self, asks)]
        found = Completion(
            model=self.name,
            samples=tuple(self._sample(each, sampling) for each in drawn),
            input_tokens=len(prompt),
            output_tokens=sum(len(each.ids) for each in drawn),
            prompt_token_ids=prompt,
            served=self._host.served,
        )
        return found, drawn

    def _end_rule(
        self, sample: int, prompt: tuple[int, ...], sampling: Sampling, watcher: Watcher | None
    ) -> _Ending | None:
        if not sampling.stop and watcher is None:
            return None
        return _Ending(self._host.dialogue, sampling.stop, DrawnText(self.name, len(prompt), sample, ""), watcher)

    def _sample(self, drawn: SampledTokens, sampling: Sampling) -> Sample:
        dialogue, stops = self._host.dialogue, sampling.stop
        text = dialogue.text(drawn.ids)
        text = text[: min((text.find(stop) for stop in stops if stop in text), default=len(text))]
        tokens = tuple(Token(dialogue.token(token), own) for token, own in zip(drawn.ids, drawn.logprobs, strict=True))
        return Sample(text, drawn.finish, tokens if sampling.wants_logprobs else None, drawn.ids)


@dataclass(frozen=True, slots=True)
class _Ending:
    """Predicate: the sampled tokens contain a stop text, or nobody waits for further ones."""

    dialogue: Dialogue
    stops: tuple[str, ...]
    told: DrawnText
    watcher: Watcher | None

    def __call__(self, ids: Sequence[int]) -> bool:
        text = self.dialogue.text(ids)
        if any(stop in text for stop in self.stops):
            return True
        if self.watcher is None:
            return False
        whole = self.dialogue.text(self.dialogue.without_open_bytes(ids))
        return self.watcher(replace(self.told, text=settled_text(whole, self.stops)))
