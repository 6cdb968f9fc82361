"""Every append key has a chain value. The SQL is in `migrations/sql/key_chains.sql`."""

from pathlib import Path
from typing import Any, cast

import psycopg
from alembic import op

revision = "0011"
down_revision = "0010"

SQL = Path(__file__).parents[1] / "sql"


def upgrade() -> None:
    driver = cast("psycopg.Connection[Any]", op.get_bind().connection.driver_connection)
    driver.execute((SQL / "key_chains.sql").read_bytes())
