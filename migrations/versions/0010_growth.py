"""Indexes that keep reads from growing with the log. The SQL is in `migrations/sql/growth.sql`."""

from pathlib import Path
from typing import Any, cast

import psycopg
from alembic import op

revision = "0010"
down_revision = "0009"

SQL = Path(__file__).parents[1] / "sql"


def upgrade() -> None:
    driver = cast("psycopg.Connection[Any]", op.get_bind().connection.driver_connection)
    driver.execute((SQL / "growth.sql").read_bytes())
