"""A chain over append keys, so that a key that was renamed is found; and an index of the events that disown others."""

from pathlib import Path
from typing import Any, cast

import psycopg
from alembic import op

revision = "0009"
down_revision = "0008"

SQL = Path(__file__).parents[1] / "sql"
PARTS = ("keys", "append", "disownings")


def upgrade() -> None:
    driver = cast("psycopg.Connection[Any]", op.get_bind().connection.driver_connection)
    for part in PARTS:
        driver.execute((SQL / f"{part}.sql").read_bytes())
