"""The four kinds of small sites."""

from __future__ import annotations

from typing import Final

from .grammar import Words

LIBRARY: Final = Words(
    site="library",
    things="Books",
    address="/books",
    kinds=("Atlas", "Grammar", "Novel", "Herbal", "Almanac"),
    branches=("Any branch", "Harbour branch", "Mill branch", "Old town", "Bookmobile", "Archive"),
    branch="Mill branch",
    who="Your name",
    send="Reserve",
    renamed="Reserve this copy",
    tabs=("Description", "Reviews", "Reservation form"),
    gate=("I have a reader's card", "Continue to the reservation"),
    prerequisite="I will bring it back in time",
    confirm=("Everything is right", "Confirm reservation"),
    further="Further books",
    moved=("/catalogue", "/opac/titles", "/shelf"),
)
CLINIC: Final = Words(
    site="clinic",
    things="Doctors",
    address="/doctors",
    kinds=("Dentist", "Surgeon", "Oculist", "Dermatologist", "Cardiologist"),
    branches=("Choose a house", "North house", "South house", "Children's house", "Day ward", "Outpatients"),
    branch="Day ward",
    who="Patient's name",
    send="Request appointment",
    renamed="Ask for an appointment",
    tabs=("Opening hours", "Way here", "Appointment"),
    gate=("This is no emergency", "Go on to appointments"),
    prerequisite="I was told about cancelling",
    confirm=("The patient agrees", "Confirm appointment"),
    further="More doctors",
    moved=("/staff", "/our-team/medical", "/people"),
)
WORKSHOP: Final = Words(
    site="workshop",
    things="Spare parts",
    address="/parts",
    kinds=("Gasket", "Bearing", "Spindle", "Flange", "Coupling"),
    branches=("Select a store", "Store A", "Store B", "Central store", "Foundry", "Scrapyard"),
    branch="Foundry",
    who="Ordered by",
    send="Order",
    renamed="Place the order",
    tabs=("Drawing", "Stock", "Ordering"),
    gate=("I am of the trade", "Enter the trade counter"),
    prerequisite="I accept the terms of delivery",
    confirm=("The part number is right", "Confirm order"),
    further="Next parts",
    moved=("/store/items", "/spares", "/components"),
)
PERMITS: Final = Words(
    site="permits",
    things="Permits",
    address="/permits",
    kinds=("Mooring", "Market stall", "Fence", "Scaffold", "Bonfire"),
    branches=("All districts", "First district", "Second district", "Island", "Hillside", "Quay"),
    branch="Quay",
    who="Applicant",
    send="Apply",
    renamed="Send application",
    tabs=("Fees", "Rules", "Application"),
    gate=("I live in this town", "Proceed to the application"),
    prerequisite="I know the fee",
    confirm=("All statements are true", "Confirm application"),
    further="Other permits",
    moved=("/licences", "/office/forms", "/requests"),
)
WORDS: Final = (LIBRARY, CLINIC, WORKSHOP, PERMITS)
