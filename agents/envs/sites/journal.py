"""Journal of an instance: its changes, its clock, and the fingerprint over content and changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from ..contract import Mutation


class Journal:
    """Mutations of one instance; its clock counts page requests."""

    def __init__(self, mutations: Sequence[Mutation] = ()) -> None:
        self._clock = max((each.at for each in mutations), default=0)
        self._mutations = list(mutations)

    @property
    def mutations(self) -> Sequence[Mutation]:
        """Changes made by the agent since the reset, oldest first."""
        return tuple(self._mutations)

    def tick(self) -> None:
        """Count one page request."""
        self._clock += 1

    def record(self, operation: str, target_type: str, target_id: str, payload: Mapping[str, JsonValue]) -> None:
        """Record one change with the next id and the current time."""
        self._mutations.append(
            Mutation(
                id=len(self._mutations) + 1,
                operation=operation,
                target_type=target_type,
                target_id=target_id,
                payload=payload,
                at=self._clock,
            )
        )

    def digest(self, content: Mapping[str, JsonValue]) -> str:
        """`sha256:` and the digest of the seed's content and of the mutations without their times."""
        changes: list[JsonValue] = [each.model_dump(mode="json", exclude={"at"}) for each in self._mutations]
        state = {**content, "mutations": changes}
        return "sha256:" + hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
