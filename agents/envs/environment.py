"""What a run needs of a site, whoever made it: our own sites' client keeps it, and so does a foreign site's."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self

from .contract import Graded, Health, Instance, InstanceState, Mutation


class Environment(Protocol):
    """A site that can be seeded, graded and read; what it answers is that of docs/environments.md.

    Every method raises EnvironmentFailure in one of its kinds; none of them says anything about an agent.
    """

    @property
    def admin_url(self) -> str:
        """The address of the admin surface, as errors name it."""
        ...

    @property
    def page_headers(self) -> Mapping[str, str]:
        """What an agent's calls to the pages have to carry, besides the address."""
        ...

    @property
    def has_record(self) -> bool:
        """Whether the site tells what was changed in it; of one that does not, `mutations` tells of none."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def disconnect(self) -> None:
        """Close the connections."""
        ...

    def health(self) -> Health:
        """Whether the site serves, and which tasks it grades."""
        ...

    def reset(self, seed: int, *, instance: Instance | str | None = None, repeat: int = 0) -> Instance:
        """An instance made from a seed, or the given one made anew."""
        ...

    def oracle(self, instance: Instance | str, task_id: str) -> Graded:
        """An instance judged for one task."""
        ...

    def mutations(self, instance: Instance | str, since_id: int = 0) -> tuple[Mutation, ...]:
        """An instance's changes with ids above `since_id`, oldest first."""
        ...

    def state(self, instance: Instance | str) -> InstanceState:
        """What an instance holds, and its fingerprint."""
        ...

    def close(self, instance: Instance | str) -> None:
        """Close an instance."""
        ...


def instance_id(instance: Instance | str) -> str:
    """The id of an instance."""
    return instance if isinstance(instance, str) else instance.instance
