"""The model endpoint of one run of an agent, as its executor uses it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from ..executor import PassedOn
from .task import TaskModel


class ModelAccess(Protocol):
    """A model endpoint for one run: its addresses and key, and the calls that were made through it."""

    @property
    def model(self) -> TaskModel:
        """The model as the agent is told of it."""
        ...

    def calls(self, taken: int) -> tuple[PassedOn, ...]:
        """Calls since the last time that this was asked, made for the step with this number."""
        ...

    def close(self) -> None:
        """End the endpoint: its key is good for nothing. Raises ModelFailure if the model did not answer at last."""
        ...


def no_model(_advice: str, _weights: str) -> AbstractContextManager[ModelAccess | None]:
    """No model endpoint."""
    return nullcontext(None)
