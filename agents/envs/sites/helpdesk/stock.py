"""Lanternpost's word lists: names, topics, subjects, sentences. Changing a line changes every mailbox."""

from __future__ import annotations

from typing import Final, Literal

Topic = Literal["Billing", "Feature", "Login", "Outage", "Shipping"]
Plan = Literal["Business", "Enterprise", "Starter"]
Status = Literal["New", "Open", "Pending", "Solved"]
Team = Literal["Nobody", "Access", "Front desk", "Logistics", "Payments", "Product"]
Priority = Literal["Low", "Normal", "High"]

TOPICS: Final[tuple[Topic, ...]] = ("Billing", "Feature", "Login", "Outage", "Shipping")
PLANS: Final[tuple[Plan, ...]] = ("Business", "Enterprise", "Starter")
STATUSES: Final[tuple[Status, ...]] = ("New", "Open", "Pending", "Solved")
TEAMS: Final[tuple[Team, ...]] = ("Access", "Front desk", "Logistics", "Payments", "Product")
PRIORITIES: Final[tuple[Priority, ...]] = ("Low", "Normal", "High")
ARRIVING: Final[tuple[Status, ...]] = ("New", "Open", "Solved")

FIRST_NAMES: Final = (
    "Aiko", "Amir", "Bea", "Carlos", "Dana", "Elif", "Femi", "Greta", "Hugo", "Ines", "Jonas", "Kofi",
    "Lena", "Milo", "Nora", "Omar", "Priya", "Quinn", "Rosa", "Sven", "Tara", "Umar", "Vera", "Wes",
)  # fmt: skip
LAST_NAMES: Final = (
    "Abbott", "Bauer", "Castro", "Dunn", "Ekberg", "Farah", "Grant", "Hsu", "Ivers", "Jansen", "Klein", "Lopez",
    "Mori", "Nkosi", "Okoye", "Perez", "Quist", "Reyes", "Singh", "Tran", "Ueda", "Vance", "Weber", "Young",
)  # fmt: skip
STREETS: Final = ("Alder Street", "Birch Lane", "Canal Road", "Dock Street", "Elm Avenue", "Ferry Road", "Glen Close")
AREAS: Final = ("207", "303", "415", "503", "612", "702", "808", "919")
REGIONS: Final = ("the north", "the south", "Europe", "Asia", "the islands", "the coast", "the office", "our branch")
SUBJECTS: Final[dict[Topic, tuple[str, ...]]] = {
    "Billing": ("Charged twice", "Invoice has the wrong name", "Refund has not come", "Price on the invoice is wrong"),
    "Feature": ("Dark mode, please", "Can exports be scheduled?", "A button for everything", "Shorter menus"),
    "Login": ("Code never arrives", "Locked out", "Password link is old", "New phone, no codes"),
    "Outage": ("Nothing loads in {region}", "Dashboard is empty in {region}", "Errors all morning in {region}"),
    "Shipping": ("Parcel is late", "Parcel went elsewhere", "Where is my order?", "Box was empty"),
}
OPENINGS: Final = ("Hello,", "Hi there,", "Good morning,", "Dear team,")
COMPLAINTS: Final[dict[Topic, tuple[str, ...]]] = {
    "Billing": ("the sum for order {order} is not what we agreed.", "please look at the invoice for order {order}."),
    "Feature": ("we would use this every day.", "other tools have had this for years."),
    "Login": ("I cannot get in since yesterday.", "the page only says that something went wrong."),
    "Outage": ("nothing has worked for an hour.", "all of us see the same error."),
    "Shipping": ("my order {order} has not come.", "the tracking of order {order} stands still."),
}
PERSONAL: Final = (
    "You can reach me at {phone}.",
    "I paid with the card {card}.",
    "I live at {street}, in case that helps.",
    "Please answer to {email} and not to my colleague.",
)
CLOSINGS: Final = ("Thank you, {first}", "Regards, {first}", "Please hurry. {first}", "Best, {first}")
