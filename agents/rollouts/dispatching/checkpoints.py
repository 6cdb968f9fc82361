"""Checkpoints of runs: what another attempt at a run goes on from, kept beside the profiles of sessions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...models.kept_answers import AnswerLog
from .profiles import TableKeeper
from .state_keys import StateKey


@contextmanager
def resume_answers(keeper: TableKeeper, state: StateKey) -> Iterator[AnswerLog]:
    """The answers of former attempts at a call. They are kept if the block raises, and discarded if it ends.

    Only the last attempt that began saves answers, so that a worker which was taken for lost spoils nothing.
    """
    name = state.resume
    ticket, body = keeper.hand_out(name)
    yield AnswerLog.parse(body, lambda saved: keeper.hand_in(name, ticket, saved))
    keeper.discard(name, ticket)
