"""A site on which one run plays in an instance that somebody else opened: it is restarted, never made or closed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .contract import Graded, Health, Instance, InstanceState, Mutation
from .environment import Connected, Environment


@dataclass(frozen=True)
class LentEnvironment(Connected):
    """An environment whose only instance is a lent one, whose noise is that of the index `repeat`."""

    environment: Environment
    instance: str
    repeat: int

    @property
    def admin_url(self) -> str:
        """See Environment."""
        return self.environment.admin_url

    @property
    def page_headers(self) -> Mapping[str, str]:
        """See Environment."""
        return self.environment.page_headers

    @property
    def has_record(self) -> bool:
        """See Environment."""
        return self.environment.has_record

    def disconnect(self) -> None:
        """Do nothing: the connections are those of the environment behind it."""

    def health(self) -> Health:
        """See Environment."""
        return self.environment.health()

    def reset(self, seed: int, *, instance: Instance | str | None = None, repeat: int = 0) -> Instance:  # noqa: ARG002
        """Restart the lent instance. Raises InstanceClosed if the site does not have it any more."""
        return self.environment.reset(seed, instance=self.instance, repeat=self.repeat)

    def oracle(self, instance: Instance | str, task_id: str) -> Graded:
        """See Environment."""
        return self.environment.oracle(instance, task_id)

    def mutations(self, instance: Instance | str, since_id: int = 0) -> tuple[Mutation, ...]:
        """See Environment."""
        return self.environment.mutations(instance, since_id)

    def state(self, instance: Instance | str) -> InstanceState:
        """See Environment."""
        return self.environment.state(instance)

    def close(self, instance: Instance | str) -> None:
        """Leave the instance open: who opened it closes it."""
