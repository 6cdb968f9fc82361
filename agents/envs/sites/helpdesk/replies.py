"""Reading the form that answers a ticket, and composing the reply that is sent. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, get_args

from .macros import BY_KEY, fill_macro, quote_message
from .mailbox import Customer, Ticket
from .stock import Status

LONGEST: Final = 5_000
MACRO, VISIBILITY, QUOTE, MESSAGE, STATUS, DO = "mac", "vis", "quo", "msg", "sta", "do"
VISIBILITIES: Final = {"internal": "Internal note", "public": "Public reply"}
QUOTES: Final = {"y": "Yes", "n": "No"}
UNCHANGED: Final = "Unchanged"


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply as an agent filled it in, with its errors; a status of None leaves the ticket's status unchanged."""

    macro: str
    visibility: str
    quote: bool
    message: str
    status: Status | None
    errors: tuple[str, ...]

    def text(self, ticket: Ticket, customer: Customer) -> str:
        """Text to send: the filled-in macro, the message and the quoted ticket, separated by blank lines."""
        macro = [fill_macro(BY_KEY[self.macro], ticket, customer)] if self.macro in BY_KEY else []
        parts = [*macro, *([self.message] if self.message else []), *([quote_message(ticket)] if self.quote else [])]
        return "\n\n".join(parts)


def read_reply(fields: Mapping[str, str]) -> Reply:
    """Read the form; `errors` names the fields that were not accepted."""
    macro, visibility = fields.get(MACRO, ""), fields.get(VISIBILITY, "internal")
    message = fields.get(MESSAGE, "").replace("\r\n", "\n").strip()
    status = next((each for each in get_args(Status) if each == fields.get(STATUS, "")), None)
    errors = [] if macro in {"", *BY_KEY} else ["We do not know that macro."]
    errors += [] if visibility in VISIBILITIES else ["Please choose who sees the reply."]
    errors += [] if macro or message else ["Please choose a macro or write a message."]
    errors += [] if len(message) <= LONGEST else ["The message is too long."]
    errors += [] if all(sign.isprintable() or sign in "\n\t" for sign in message) else ["The message cannot be read."]
    return Reply(macro, visibility, fields.get(QUOTE, "n") == "y", message, status, tuple(errors))
