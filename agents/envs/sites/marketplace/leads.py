"""Reading the form that asks a seller for details. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LONGEST: Final = {"who": 200, "reply_to": 320, "txt": 5_000}
LABELS: Final = {"who": "Your name", "reply_to": "Email", "txt": "Message"}


@dataclass(frozen=True, slots=True)
class Lead:
    """A request for details as a buyer filled it in, without surrounding whitespace, and its errors."""

    name: str
    email: str
    message: str
    errors: tuple[str, ...]


def read_lead(fields: Mapping[str, str]) -> Lead:
    """Read the form; `errors` names the fields that were not accepted."""
    said = {key: fields.get(key, "").replace("\r\n", "\n").strip() for key in LONGEST}
    errors = [] if said["who"] else ["Please tell us your name."]
    if "@" not in said["reply_to"].strip("@") or " " in said["reply_to"]:
        errors.append("Please give an email address, such as name@example.com.")
    errors += [f"{LABELS[key]} is too long." for key, most in LONGEST.items() if len(said[key]) > most]
    errors += [f"{LABELS[key]} holds a sign that cannot be read." for key, text in said.items() if not _readable(text)]
    return Lead(said["who"], said["reply_to"], said["txt"], tuple(errors))


def _readable(text: str) -> bool:
    return all(sign.isprintable() or sign in "\n\t" for sign in text)
