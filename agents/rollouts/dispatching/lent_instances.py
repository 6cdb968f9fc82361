"""Instances that callers opened for their runs, kept beside the profiles of sessions until the run has ended.

An instance's id is a secret, so the log holds its digest alone.
"""

from __future__ import annotations

from hashlib import sha256

from pydantic import BaseModel, ConfigDict

from .profiles import TableKeeper
from .state_keys import plain_name


class LentInstance(BaseModel):
    """The id of an instance that a caller opened, and the index that its noise was drawn for."""

    model_config = ConfigDict(frozen=True)

    instance: str
    repeat: int

    @property
    def digest(self) -> str:
        """SHA-256 of the id, by which the log knows the instance."""
        return sha256(self.instance.encode()).hexdigest()


def keep_lent(keeper: TableKeeper, run: str, lent: LentInstance) -> None:
    """Keep an instance for a run until `return_lent`."""
    ticket, _ = keeper.hand_out(_name(run))
    keeper.hand_in(_name(run), ticket, lent.model_dump_json().encode())


def find_lent(keeper: TableKeeper, run: str) -> LentInstance | None:
    """The instance that was lent for a run; None if there is none, or no longer."""
    body = keeper.read_profile(_name(run))
    return None if body is None else LentInstance.model_validate_json(body)


def return_lent(keeper: TableKeeper, run: str) -> None:
    """Forget the instance of a run that has ended."""
    name = _name(run)
    keeper.discard(name, keeper.hand_out(name)[0])


def _name(run: str) -> str:
    return f"{plain_name(run)}@lent"
