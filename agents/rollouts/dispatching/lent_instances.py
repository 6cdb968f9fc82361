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
    name = _name(run, lent.digest)
    ticket, _ = keeper.hand_out(name)
    keeper.hand_in(name, ticket, lent.model_dump_json().encode())


def find_lent(keeper: TableKeeper, run: str, digest: str) -> LentInstance | None:
    """The instance of this digest that was lent for a run; None if there is none, or no longer."""
    body = keeper.read_profile(_name(run, digest))
    return None if body is None else LentInstance.model_validate_json(body)


def return_lent(keeper: TableKeeper, run: str, digest: str) -> None:
    """Forget the instance of a run that has ended."""
    name = _name(run, digest)
    keeper.discard(name, keeper.hand_out(name)[0])


def _name(run: str, digest: str) -> str:
    """Name of one instance for one run: two requests may race for a run's name, with an instance each."""
    return f"{plain_name(run)}@lent-{digest[:12]}"
