"""State of one Harbourline instance: its seed's catalogue, its noise, and the agent's changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...contract import Mutation
from ..journal import Journal
from ..noise import Noise, Troubles
from ..site import OracleGrade
from .catalog import Boat, Catalogue, catalogue
from .drift import Family, drift_family
from .further_oracle import CONTACT, DRAW, ENTRY, FURTHER_GRADERS, WATCH
from .further_tasks import DRAWN_PER_MILLE, GATED_MAKES, ODDS
from .oracle import GRADERS, LEAD, PHONE
from .papers import Paper, PaperEntry


class Harbour(Journal):
    """One isolated copy of the site. Its clock counts page requests."""

    def __init__(self, seed: int, repeat: int = 0, mutations: Sequence[Mutation] = ()) -> None:
        super().__init__(mutations)
        self.seed = seed
        self.family: Family = drift_family(seed)
        self.catalogue: Catalogue = catalogue(seed)
        noise = Noise(seed, repeat)
        self.troubles = Troubles(noise, ODDS)
        self._is_drawn = noise.happens("harbourline:draw", DRAWN_PER_MILLE)
        self._revealed = {int(each.target_id) for each in mutations if each.operation == PHONE}
        self._contacted = {int(each.target_id) for each in mutations if each.operation == CONTACT}

    @classmethod
    def restore(cls, seed: int, mutations: Sequence[Mutation]) -> Harbour:
        """Rebuild an instance from its seed and its changes; its clock shows the time of the last change."""
        return cls(seed, mutations=mutations)

    def submit_lead(self, boat: Boat, *, name: str, email: str, message: str) -> None:
        """Record a request for details; repeated requests are all recorded."""
        self._record(LEAD, boat, {"name": name, "email": email, "message": message})

    def reveal_phone(self, boat: Boat) -> None:
        """Show a boat's phone number from now on; does nothing if it is shown, or needs a contact request first."""
        if boat.id not in self._revealed and not (is_gated(boat) and boat.id not in self._contacted):
            self._revealed.add(boat.id)
            self._record(PHONE, boat, {})

    def is_revealed(self, boat: Boat) -> bool:
        """True if the boat's phone number is shown."""
        return boat.id in self._revealed

    def start_contact(self, boat: Boat) -> None:
        """Start a contact request with a boat's dealer, once."""
        if boat.id not in self._contacted:
            self._contacted.add(boat.id)
            self._record(CONTACT, boat, {})

    def is_contacted(self, boat: Boat) -> bool:
        """True if a contact request was started for the boat."""
        return boat.id in self._contacted

    def save_entry(self, boat: Boat, paper: Paper, entry: PaperEntry) -> None:
        """Save an entry of a boat's papers; repeated saves are all recorded."""
        self._record(ENTRY, boat, {"paper": paper.key, "entry": entry.key, "value": entry.value})

    def watch(self, boat: Boat, email: str) -> None:
        """Watch a boat's price; repeated watches are all recorded."""
        self._record(WATCH, boat, {"email": email})

    def enter_draw(self, email: str) -> None:
        """Enter the prize draw, once; whether the entry is drawn was settled at the reset."""
        if self.is_drawn is None:
            self.record(DRAW, "draw", "weekly", {"email": email, "drawn": self._is_drawn})

    @property
    def is_drawn(self) -> bool | None:
        """True if the entry was drawn; None before the entry."""
        found = (mutation.payload["drawn"] is True for mutation in self.mutations if mutation.operation == DRAW)
        return next(found, None)

    def counts(self) -> Mapping[str, int]:
        """Number of boats, leads, shown phone numbers and changes."""
        leads = sum(mutation.operation == LEAD for mutation in self.mutations)
        return {
            "boats": len(self.catalogue.boats),
            "leads": leads,
            "phones": len(self._revealed),
            "mutations": len(self.mutations),
        }

    def fingerprint(self) -> str:
        """Digest of the boats, the addresses and the mutations, without the clock, the noise and the instance's id."""
        return self.digest({"seed": self.seed, "catalogue": self.catalogue.digest, "family": self.family.name})

    def grade(self, task_id: str) -> OracleGrade:
        """Grade one of the site's tasks. Raises KeyError for an unknown one."""
        return {**GRADERS, **FURTHER_GRADERS}[task_id](self.catalogue, self.mutations)

    def _record(self, operation: str, boat: Boat, payload: Mapping[str, str]) -> None:
        self.record(operation, "boat", str(boat.id), dict(payload))


def is_gated(boat: Boat) -> bool:
    """True if the boat's dealer requires a contact request before giving out the number."""
    return boat.seller == "dealer" and boat.make in GATED_MAKES
