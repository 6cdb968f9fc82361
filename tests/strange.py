"""Events that are not of this flywheel's vocabulary, as another program could append them."""

from __future__ import annotations

import os

from eventlog.chain import canonical, event_digest
from eventlog.codec import EncodedAppend, EncodedEvent
from eventlog.database import open_engine
from eventlog.postgres import PostgresStore
from tests.conftest import Database


def append(database: Database, kind: str, payload: dict[str, object]) -> None:
    """Append past the vocabulary, as a program that is not this flywheel could."""
    digest = event_digest(kind, 1, payload, "stranger", None)
    event = EncodedEvent(kind, 1, canonical(payload), digest)
    request = EncodedAppend("strange", None, f"strange:{os.urandom(4).hex()}", bytes(32), "stranger", None, (event,))
    engine = open_engine(database.app_url)
    PostgresStore(engine).append_encoded([request])
    engine.dispose()
