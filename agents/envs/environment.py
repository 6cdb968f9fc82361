"""The interface of a site that runs need; implemented by the clients of our own sites and of foreign ones."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self

from .contract import Graded, Health, Instance, InstanceState, Mutation


class Environment(Protocol):
    """A site that can be reset, graded and read, with the answers that docs/environments.md specifies.

    Every method raises subclasses of EnvironmentFailure, which say nothing about an agent.
    """

    @property
    def admin_url(self) -> str:
        """Address of the admin surface, as shown in errors."""
        ...

    @property
    def page_headers(self) -> Mapping[str, str]:
        """Headers that an agent's page requests must carry."""
        ...

    @property
    def has_record(self) -> bool:
        """True if the site records changes; otherwise `mutations` is always empty."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def disconnect(self) -> None:
        """Close the connections."""
        ...

    def health(self) -> Health:
        """Health of the site, with the tasks that it grades."""
        ...

    def reset(self, seed: int, *, instance: Instance | str | None = None, repeat: int = 0) -> Instance:
        """Make an instance from a seed, or restart the given one."""
        ...

    def oracle(self, instance: Instance | str, task_id: str) -> Graded:
        """Grade of an instance for one task."""
        ...

    def mutations(self, instance: Instance | str, since_id: int = 0) -> tuple[Mutation, ...]:
        """Changes of an instance with ids above `since_id`, oldest first."""
        ...

    def state(self, instance: Instance | str) -> InstanceState:
        """State of an instance, with its fingerprint."""
        ...

    def close(self, instance: Instance | str) -> None:
        """Close an instance."""
        ...


class Connected:
    """Part of an environment: its connections are closed at the end of a `with` block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """Close the connections."""
        raise NotImplementedError


def instance_id(instance: Instance | str) -> str:
    """The id of an instance."""
    return instance if isinstance(instance, str) else instance.instance
