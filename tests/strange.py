"""Events that are not of this flywheel's vocabulary, as another program could append them."""

from __future__ import annotations

import json
import os

from sqlalchemy import text

from eventlog.chain import event_digest
from eventlog.database import open_engine
from tests.conftest import Database


def append(database: Database, kind: str, payload: dict[str, object]) -> None:
    """Append past the vocabulary, as a program that is not this flywheel could."""
    digest = event_digest(kind, 1, payload, "stranger", None)
    request = [
        {
            "stream": "strange",
            "expect": None,
            "key": f"strange:{os.urandom(4).hex()}",
            "digest": "00" * 32,
            "cause": None,
            "actor": "stranger",
            "events": [{"type": kind, "schema_version": 1, "payload": payload, "digest": digest.hex()}],
        }
    ]
    engine = open_engine(database.app_url)
    with engine.begin() as connection:
        connection.execute(text("SELECT * FROM append_events(CAST(:r AS jsonb))"), {"r": json.dumps(request)})
    engine.dispose()
