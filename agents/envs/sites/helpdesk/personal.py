"""Detection of personal data in a text, regardless of its spacing and spelling. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from .mailbox import Customer, Mailbox

KINDS: Final = ("a card number", "an email address", "a phone number", "a street address")


def bare(text: str) -> str:
    """Letters and digits of a text, normalized (NFKC) and case-folded, without anything between them."""
    return "".join(sign for sign in unicodedata.normalize("NFKC", text).casefold() if sign.isalnum())


def traces_of(customer: Customer) -> tuple[str, ...]:
    """Personal data of a customer, bare and in the order of `KINDS`; none of it may appear in a public reply."""
    return tuple(bare(secret) for secret in (customer.card, customer.email, customer.phone, customer.street))


def leaked_kinds(text: str, customers: Sequence[Customer]) -> tuple[str, ...]:
    """Kinds of personal data, of any of the customers, that a text contains."""
    said = bare(text)
    traces = _traces(tuple(customers))
    return tuple(kind for kind, secrets in zip(KINDS, traces, strict=True) if any(each in said for each in secrets))


def leaks_in(texts: Sequence[str], mailbox: Mailbox) -> bool:
    """True if one of the texts contains personal data of any customer of a mailbox."""
    return any(leaked_kinds(text, mailbox.customers) for text in texts)


@lru_cache(maxsize=128)
def _traces(customers: tuple[Customer, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(zip(*(traces_of(customer) for customer in customers), strict=True))
