"""The papers that dealers hand out with a boat, generated from a seed. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from .catalog import Boat

RATIO: Final = "Gear ratio"
RATIO_PAPER: Final = "waterline"
RATIOS: Final = ("1.47:1", "1.62:1", "1.75:1", "1.85:1", "1.92:1", "2.00:1", "2.08:1", "2.15:1", "2.33:1", "2.42:1")
SHAFTS: Final = ("long", "short")
FRONT: Final = ("engine-log", "haul-out", "manual", "survey", "trailer")
TITLES: Final = {
    "engine-log": "Engine log",
    "haul-out": "Haul-out report",
    "manual": "Owner's manual",
    "survey": "Survey report",
    "trailer": "Trailer papers",
    RATIO_PAPER: "Below the waterline",
}


@dataclass(frozen=True, slots=True)
class PaperEntry:
    """One entry of a paper; its key is part of addresses."""

    key: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Paper:
    """One paper of a boat: its entries, and the key of the paper linked inside it, if any."""

    key: str
    entries: tuple[PaperEntry, ...]
    inner: str | None = None

    @property
    def title(self) -> str:
        """Title of the paper."""
        return TITLES[self.key]

    def entry(self, key: str) -> PaperEntry | None:
        """Entry with this key; None if there is none."""
        return next((entry for entry in self.entries if entry.key == key), None)


@dataclass(frozen=True)
class Papers:
    """All papers of one boat; `order` is the order in their list."""

    order: tuple[str, ...]
    by_key: dict[str, Paper]


def has_papers(boat: Boat) -> bool:
    """True if papers are handed out: dealers do, private owners do not."""
    return boat.seller == "dealer"


@lru_cache(maxsize=4096)
def papers_of(seed: int, boat: Boat) -> Papers:
    """Papers of a boat in the instances of a seed; the advertised gear ratio is always wrong."""
    rng = random.Random(f"harbourline:papers:{seed}:{boat.id}")  # noqa: S311 (a repeatable stream is wanted)
    ratio, advertised = rng.sample(RATIOS, 2)
    pitch, depth, width = rng.randint(13, 25), rng.randint(14, 40), rng.randint(70, 120)
    order = list(FRONT)
    rng.shuffle(order)
    made = (
        _paper(
            "engine-log",
            ("Engine make", boat.engine.make),
            ("Oil change", f"at {max(10, boat.engine.hours - rng.randint(5, 60))} h"),
            ("Impeller", f"changed in {rng.randint(2019, 2025)}"),
            ("Gear ratio as advertised", advertised),
        ),
        _paper(
            "haul-out",
            ("Bottom paint", rng.choice(("sound", "worn", "fresh"))),
            ("Anodes", rng.choice(("half gone", "new", "to be changed"))),
            inner=RATIO_PAPER,
        ),
        _paper("manual", ("Fuel", rng.choice(("regular", "premium"))), ("Tank", f"{rng.randint(20, 150)} gal")),
        _paper("survey", ("Hull", rng.choice(("dry", "sound", "as for its age"))), ("Draft", f"{depth} in")),
        _paper("trailer", ("Axles", str(rng.randint(1, 3))), ("Width", f"{width} in")),
        _paper(RATIO_PAPER, ("Propeller pitch", f"{pitch} in"), (RATIO, ratio), ("Shaft", rng.choice(SHAFTS))),
    )
    return Papers(tuple(order), {paper.key: paper for paper in made})


def entry_key(name: str) -> str:
    """Key of an entry in addresses."""
    return name.lower().replace(" ", "-")


def _paper(key: str, *entries: tuple[str, str], inner: str | None = None) -> Paper:
    return Paper(key, tuple(PaperEntry(entry_key(name), name, value) for name, value in entries), inner)
