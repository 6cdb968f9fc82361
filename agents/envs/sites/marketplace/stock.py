"""Harbourline's word lists: makes, models, states, engines, sentences. Changing a line changes every catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Line:
    """A make's models with their lengths in feet, and its price when new, in dollars per square foot of length."""

    rate: int
    models: tuple[tuple[str, int], ...]


MAKES: Final = {
    "Bayliner": Line(
        64,
        (
            ("Element E16", 16),
            ("Element M18", 18),
            ("Capri 195", 19),
            ("VR5 Bowrider", 20),
            ("Trophy T22", 22),
            ("Ciera 255", 25),
        ),
    ),
    "Beneteau": Line(
        150, (("Flyer 7", 23), ("Antares 8", 27), ("Oceanis 30", 31), ("Swift Trawler 34", 37), ("First 36", 36))
    ),
    "Bertram": Line(
        190, (("28 Flybridge", 28), ("31 Sport Fisherman", 31), ("35 Convertible", 35), ("39 Center Console", 39))
    ),
    "Boston Whaler": Line(
        118,
        (("130 Super Sport", 13), ("170 Montauk", 17), ("210 Dauntless", 21), ("230 Outrage", 23), ("280 Vantage", 28)),
    ),
    "Chaparral": Line(
        96, (("19 SSi", 19), ("21 Surf", 21), ("230 Suncoast", 23), ("267 SSX", 27), ("287 Signature", 29))
    ),
    "Cobalt": Line(132, (("CS22", 22), ("R3 Surf", 23), ("A25", 25), ("276", 27), ("R30", 30))),
    "Grady-White": Line(
        142, (("Fisherman 180", 18), ("Freedom 215", 21), ("Canyon 271", 27), ("Marlin 300", 30), ("Express 330", 33))
    ),
    "MasterCraft": Line(160, (("NXT20", 20), ("ProStar", 20), ("X22", 22), ("XT23", 23), ("X24", 24))),
    "Ranger": Line(88, (("VS1782", 17), ("RT188", 18), ("Z185", 18), ("RB190", 19), ("621 Pro", 21))),
    "Sea Ray": Line(
        104,
        (
            ("SPX 190", 19),
            ("SDX 220", 22),
            ("Sundancer 260", 26),
            ("SLX 280", 28),
            ("Sundancer 320", 32),
            ("Fly 400", 40),
        ),
    ),
    "Tracker": Line(
        52,
        (
            ("Guide V-14", 14),
            ("Grizzly 1648", 16),
            ("Bass Tracker Classic", 16),
            ("Pro Team 175", 17),
            ("Targa V-18", 18),
        ),
    ),
    "Yamaha": Line(92, (("SX195", 19), ("AR210", 21), ("242 Limited", 24), ("252FSH", 25), ("275SD", 27))),
}
STATES: Final = {
    "California": ("310", "619", "707"),
    "Florida": ("239", "305", "813"),
    "Georgia": ("404", "706", "912"),
    "Michigan": ("231", "313", "616"),
    "Minnesota": ("218", "612", "763"),
    "New York": ("315", "518", "631"),
    "North Carolina": ("252", "704", "910"),
    "Texas": ("210", "281", "361"),
    "Washington": ("206", "253", "360"),
    "Wisconsin": ("262", "414", "920"),
}
ENGINES: Final = ("Evinrude", "Honda", "Mercury", "Suzuki", "Volvo Penta", "Yamaha")
OPENINGS: Final = (
    "Kept on a lift and rinsed after every trip.",
    "Fresh-water boat, stored indoors each winter.",
    "Second hand from new, with all papers.",
    "A family boat that was used on weekends only.",
    "Ready for the season; nothing needs doing.",
    "Surveyed last spring, report available.",
)
EXTRAS: Final = (
    "Comes with trailer and cover.",
    "New batteries and bilge pump.",
    "Fish finder and chart plotter included.",
    "Bimini top, swim ladder and ski pylon.",
    "Upholstery was redone two years ago.",
    "Hull was polished and waxed this year.",
)
CLOSINGS: Final = (
    "Viewing by appointment.",
    "Sea trial welcome.",
    "No trades, please.",
    "Slip can be taken over.",
    "Delivery possible within the state.",
    "Price leaves some room for a quick sale.",
)
