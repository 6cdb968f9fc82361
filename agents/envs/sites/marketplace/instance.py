"""The state of one Harbourline instance: a seed's catalogue, and what the agent did to it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from ...contract import Mutation
from ..site import Grade
from .catalog import Boat, Catalogue, catalogue
from .drift import Family, family_of
from .oracle import GRADERS, LEAD, PHONE


class Harbour:
    """One isolated copy of the site. Its clock is the number of pages that it was asked for."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.family: Family = family_of(seed)
        self.catalogue: Catalogue = catalogue(seed)
        self._clock = 0
        self._mutations: list[Mutation] = []
        self._revealed: set[int] = set()

    @classmethod
    def restored(cls, seed: int, mutations: Sequence[Mutation]) -> Harbour:
        """The instance of a seed as these changes left it; its clock stands at the last of them."""
        harbour = cls(seed)
        harbour._mutations = list(mutations)
        harbour._revealed = {int(each.target_id) for each in mutations if each.operation == PHONE}
        harbour._clock = max((each.at for each in mutations), default=0)
        return harbour

    @property
    def mutations(self) -> Sequence[Mutation]:
        """What the agent changed since the reset, oldest first."""
        return tuple(self._mutations)

    def tick(self) -> None:
        """Count one page that was asked for."""
        self._clock += 1

    def submit_lead(self, boat: Boat, *, name: str, email: str, message: str) -> None:
        """Record a request for details; each one that is sent counts."""
        self._record(LEAD, boat, {"name": name, "email": email, "message": message})

    def reveal_phone(self, boat: Boat) -> None:
        """Show a boat's phone number from now on; showing it again changes nothing."""
        if boat.id not in self._revealed:
            self._revealed.add(boat.id)
            self._record(PHONE, boat, {})

    def is_revealed(self, boat: Boat) -> bool:
        """Say whether the boat's phone number is shown."""
        return boat.id in self._revealed

    def counts(self) -> Mapping[str, int]:
        """How many boats there are, and how many leads and shown numbers."""
        leads = sum(mutation.operation == LEAD for mutation in self._mutations)
        return {
            "boats": len(self.catalogue.boats),
            "leads": leads,
            "phones": len(self._revealed),
            "mutations": len(self._mutations),
        }

    def fingerprint(self) -> str:
        """Digest the boats, the addresses and the mutations, but neither the clock nor the instance's id."""
        state = {
            "seed": self.seed,
            "catalogue": self.catalogue.digest,
            "family": self.family.name,
            "mutations": [mutation.model_dump(mode="json", exclude={"at"}) for mutation in self._mutations],
        }
        return "sha256:" + hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()

    def grade(self, task_id: str) -> Grade:
        """Judge one of the site's tasks; KeyError if it is none of them."""
        return GRADERS[task_id](self.catalogue, self._mutations)

    def _record(self, operation: str, boat: Boat, payload: Mapping[str, JsonValue]) -> None:
        self._mutations.append(
            Mutation(
                id=len(self._mutations) + 1,
                operation=operation,
                target_type="boat",
                target_id=str(boat.id),
                payload=payload,
                at=self._clock,
            )
        )
