"""One chain over all append keys, which every append continues."""

from pathlib import Path
from typing import Any, cast

import psycopg
from alembic import op

revision = "0011"
down_revision = "0010"

SQL = Path(__file__).parents[1] / "sql"
PARTS = ("append", "key_chains")


def upgrade() -> None:
    driver = cast("psycopg.Connection[Any]", op.get_bind().connection.driver_connection)
    for part in PARTS:
        driver.execute((SQL / f"{part}.sql").read_bytes())
