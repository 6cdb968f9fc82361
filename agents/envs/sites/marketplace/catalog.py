"""A seed's boats: pure, the same on every machine, with one correct boat for each task."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Final

from ..content import digest_content
from .stock import CLOSINGS, ENGINES, EXTRAS, MAKES, OPENINGS, STATES
from .tasks import LEAD_WANTED, PHONE_WANTED, Seller, Trait, Wanted

BOATS: Final = 600
NEWEST_YEAR: Final = 2025
OLDEST_YEAR: Final = 2004
PRICE_STEP: Final = 50
PLANTED_OF_EACH: Final = 3
OWNERS_PERCENT: Final = 45
WANTED: Final = (LEAD_WANTED, PHONE_WANTED)


@dataclass(frozen=True, slots=True)
class Engine:
    """A boat's engine."""

    make: str
    hp: int
    hours: int


@dataclass(frozen=True, slots=True)
class Boat:
    """One boat for sale; boats listed later have higher ids, and no two prices in a catalogue are equal."""

    id: int
    slug: str
    make: str
    model: str
    year: int
    length_ft: int
    price: int
    state: str
    seller: Seller
    phone: str
    engine: Engine
    description: str

    @property
    def title(self) -> str:
        """Name of the boat on every page."""
        return f"{self.year} {self.make} {self.model}"


@dataclass(frozen=True)
class Catalogue:
    """All boats of one seed, newest first."""

    seed: int
    boats: tuple[Boat, ...]

    @cached_property
    def by_id(self) -> Mapping[str, Boat]:
        """Boats by id, written as digits."""
        return MappingProxyType({str(boat.id): boat for boat in self.boats})

    @cached_property
    def by_slug(self) -> Mapping[str, Boat]:
        """Boats by slug."""
        return MappingProxyType({boat.slug: boat for boat in self.boats})

    @cached_property
    def digest(self) -> str:
        """SHA-256 over every fact of every boat."""
        return digest_content(self.boats)

    def qualifying_boats(self, wanted: Wanted) -> tuple[Boat, ...]:
        """Boats that pass a task's filters, the cheapest (the correct one) first."""
        fitting = (
            boat
            for boat in self.boats
            if wanted.fits(make=boat.make, seller=boat.seller, state=boat.state, price=boat.price)
        )
        return tuple(sorted(fitting, key=lambda boat: boat.price))


@dataclass(slots=True)
class _Draft:
    """The changeable facts of a boat while its catalogue is being made."""

    make: str
    state: str
    seller: Seller
    model: str
    year: int
    length_ft: int
    price: int

    def fits(self, wanted: Wanted) -> bool:
        return wanted.fits(make=self.make, seller=self.seller, state=self.state, price=self.price)


@lru_cache(maxsize=128)
def catalogue(seed: int) -> Catalogue:
    """Catalogue of a seed; cached, so that siblings of one instance share it."""
    rng = random.Random(f"harbourline:catalogue:{seed}")  # noqa: S311 (a repeatable stream is wanted)
    decoys = [(wanted, _draft(rng, trait)) for wanted in WANTED for trait in wanted.decoys]
    drafts = [draft for _, draft in decoys]
    drafts += [_qualifying_draft(rng, wanted) for wanted in WANTED for _ in range(PLANTED_OF_EACH)]
    drafts += [_draft(rng, _trait(rng)) for _ in range(BOATS - len(drafts))]
    rng.shuffle(drafts)
    taken = _spread_prices(drafts)
    for wanted, decoy in decoys:
        _undercut(drafts, wanted, decoy, taken)
    for wanted in WANTED:
        _bury_cheapest(drafts, wanted)
    return Catalogue(seed, _list_boats(rng, drafts))


def _trait(rng: random.Random) -> Trait:
    seller: Seller = "owner" if rng.randrange(100) < OWNERS_PERCENT else "dealer"
    return rng.choice(tuple(MAKES)), rng.choice(tuple(STATES)), seller


def _draft(rng: random.Random, trait: Trait) -> _Draft:
    make, state, seller = trait
    line = MAKES[make]
    model, length = rng.choice(line.models)
    year = rng.randint(OLDEST_YEAR, NEWEST_YEAR)
    new = line.rate * length * length
    worn = new * (1000 - 35 * (NEWEST_YEAR - year)) * rng.randint(85, 115) // 100_000
    return _Draft(make, state, seller, model, year, length, worn // PRICE_STEP * PRICE_STEP)


def _qualifying_draft(rng: random.Random, wanted: Wanted) -> _Draft:
    draft = _draft(rng, (wanted.make, wanted.state or rng.choice(tuple(STATES)), wanted.seller))
    if wanted.max_price is not None and draft.price > wanted.max_price:
        draft.price -= draft.price // wanted.max_price * wanted.max_price
        draft.price = max(draft.price, wanted.max_price // 2)
    return draft


def _spread_prices(drafts: Sequence[_Draft]) -> set[int]:
    taken: set[int] = set()
    for draft in drafts:
        draft.price = _free_below(draft.price, taken)
        taken.add(draft.price)
    return taken


def _free_below(price: int, taken: set[int]) -> int:
    while price in taken:
        price -= PRICE_STEP
    return price


def _undercut(drafts: Sequence[_Draft], wanted: Wanted, decoy: _Draft, taken: set[int]) -> None:
    """Make a decoy cheaper than the correct boat, so that an agent that skips a filter opens the decoy."""
    cheapest = min(draft.price for draft in drafts if draft.fits(wanted))
    if decoy.price > cheapest:
        decoy.price = _free_below(cheapest, taken)
        taken.add(decoy.price)


def _bury_cheapest(drafts: Sequence[_Draft], wanted: Wanted) -> None:
    """Make sure that the newest qualifying boat (the last draft) is not the cheapest, so that sorting matters."""
    fitting = [draft for draft in drafts if draft.fits(wanted)]
    oldest, newest = fitting[0], fitting[-1]
    if newest.price == min(draft.price for draft in fitting):
        oldest.price, newest.price = newest.price, oldest.price


def _list_boats(rng: random.Random, drafts: Sequence[_Draft]) -> tuple[Boat, ...]:
    boats: list[Boat] = []
    number = rng.randrange(2_000_000, 8_000_000)
    for draft in drafts:
        number += rng.randint(3, 40)
        boats.append(_boat(rng, number, draft))
    return tuple(reversed(boats))


def _boat(rng: random.Random, number: int, draft: _Draft) -> Boat:
    words = f"{draft.year} {draft.make} {draft.model} {number}".lower()
    age = NEWEST_YEAR - draft.year
    return Boat(
        id=number,
        slug="-".join("".join(sign if sign.isalnum() else " " for sign in words).split()),
        make=draft.make,
        model=draft.model,
        year=draft.year,
        length_ft=draft.length_ft,
        price=draft.price,
        state=draft.state,
        seller=draft.seller,
        phone=f"({rng.choice(STATES[draft.state])}) 555-{rng.randrange(10_000):04d}",
        engine=Engine(rng.choice(ENGINES), rng.randint(2, 18) * draft.length_ft // 10 * 5, age * rng.randint(15, 90)),
        description=" ".join((rng.choice(OPENINGS), rng.choice(EXTRAS), rng.choice(CLOSINGS))),
    )
