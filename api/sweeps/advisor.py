"""The model that recovery may call. A failure of the model is reported once and fails no run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from agents.models.errors import ModelFailure
from agents.models.model import Completion, CompletionRequest, Model, Offers
from agents.models.wire import Patience

from ..settings import Settings
from .models import local_folder, local_host, open_model

PATIENCE: Final = Patience(timeout_s=20.0, tries=2, longest_wait_s=2.0)
"""Short, because a failed run keeps its instance and its slot while it waits for the answer."""

_SHARE: Final = 4


@dataclass(frozen=True, slots=True)
class Advisor:
    """A Model that reports its failures, each kind once."""

    model: Model
    tell: Callable[[str], None]
    told: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """See Model."""
        return self.model.name

    @property
    def offers(self) -> Offers:
        """See Model."""
        return self.model.offers

    def complete(self, request: CompletionRequest) -> Completion:
        """See Model.complete."""
        try:
            return self.model.complete(request)
        except ModelFailure as failure:
            self.report(failure)
            raise

    def report(self, failure: ModelFailure) -> None:
        """Say that the model failed, or that its answer is of no use, unless that was said of the like before."""
        kind = type(failure).__name__
        if kind not in self.told:
            self.told.add(kind)
            self.tell(f"recovery goes on without an answer of {self.name}; {kind}: {failure}")


@contextmanager
def advisor_of(
    settings: Settings, tell: Callable[[str], None], *, timeout_s: float | None, is_asked: bool = True
) -> Iterator[Advisor | None]:
    """The model configured for recovery; None if there is none, or if not `is_asked`.

    `timeout_s` is the time limit of a run. Raises NoModel, BadEndpoint, BaseUnfit, LibrariesMissing.
    """
    name = settings.recovery_model
    if name is None or not is_asked:
        yield None
        return
    if local_folder(settings, name) is not None:
        with local_host(settings, name) as (host, _):
            yield Advisor(host.base(), tell)
        return
    key, url = settings.recovery_key, settings.recovery_url
    with open_model(settings.recovery_api, name, url, key, patience=patience_within(timeout_s)) as model:
        yield Advisor(model, tell)


def patience_within(timeout_s: float | None) -> Patience:
    """Timeouts of a call: each of two tries takes at most a quarter of a run's time limit."""
    if timeout_s is None:
        return PATIENCE
    return replace(PATIENCE, timeout_s=min(PATIENCE.timeout_s, timeout_s / _SHARE))
