"""A message as it is sent: a CloudEvents body, signed as the Standard Webhooks specification says. Pure."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from eventlog.events import ChampionPointed, VerdictReached
from eventlog.store import Recorded
from gate.decision import tell_reasons

from .errors import SecretUnfit

TOPICS: Final[Mapping[str, str]] = {"verdict": "VerdictReached", "champion": "ChampionPointed"}
"""The event type of each topic."""

_PREFIX: Final = "whsec_"
_LEAST_BYTES: Final = 24


@dataclass(frozen=True, slots=True)
class Message:
    """The id of a delivery, the same at each attempt, and the bytes that are sent."""

    id: str
    body: bytes


def compose_message(project: str, webhook: str, recorded: Recorded) -> Message:
    """The message about a verdict or a move of the champion. Of the sealed part only the decision is told."""
    name = f"{project}-{webhook}-{recorded.position}"
    kind, data = _describe(recorded)
    body = {
        "specversion": "1.0",
        "id": name,
        "source": f"/flywheel/{project}",
        "type": kind,
        "time": recorded.at.isoformat(),
        "subject": str(recorded.position),
        "datacontenttype": "application/json",
        "data": data,
    }
    return Message(name, msgspec.json.encode(body))


def sign_message(message: Message, secret: bytes, at: datetime) -> dict[str, str]:
    """The headers of a message: its id, the time of the attempt, and the HMAC-SHA256 over both and the body."""
    moment = str(int(at.timestamp()))
    signed = b".".join((message.id.encode(), moment.encode(), message.body))
    signature = b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    return {
        "Content-Type": "application/cloudevents+json",
        "User-Agent": "flywheel",
        "webhook-id": message.id,
        "webhook-timestamp": moment,
        "webhook-signature": f"v1,{signature}",
    }


def secret_bytes(variable: str, value: str | None) -> bytes:
    """The key of a secret: what follows `whsec_` in base64, any other text as it is. Raises SecretUnfit."""
    if not value:
        raise SecretUnfit(variable=variable, actual="it is not set")
    try:
        key = b64decode(value.removeprefix(_PREFIX), validate=True) if value.startswith(_PREFIX) else value.encode()
    except NotBase64 as error:
        raise SecretUnfit(variable=variable, actual="what follows whsec_ is not base64") from error
    if len(key) < _LEAST_BYTES:
        raise SecretUnfit(variable=variable, actual=f"it has {len(key)} bytes")
    return key


def _describe(recorded: Recorded) -> tuple[str, dict[str, Any]]:
    event = recorded.event
    if isinstance(event, VerdictReached):
        verdict = event.verdict
        return "flywheel.verdict.reached", {
            "evaluation": event.evaluation,
            "decision": verdict.decision,
            "reasons": tell_reasons(verdict),
            "champion": str(verdict.champion.artifact),
            "challenger": str(verdict.challenger.artifact),
        }
    if isinstance(event, ChampionPointed):
        artifact = event.artifact
        return "flywheel.champion.pointed", {
            "champion": str(artifact),
            "weights": artifact.weights,
            "memory": {"digest": artifact.memory.digest, "upto": artifact.memory.upto},
            "by": event.by,
            "reason": event.reason,
            "evaluation": event.evaluation,
        }
    raise TypeError(
        f"a webhook tells nothing about {recorded.event.type}; expected one of {', '.join(TOPICS.values())}"
    )
