"""Withdrawals and disownings stay when their positions are dropped. The SQL is in `migrations/sql/markers.sql`."""

from pathlib import Path
from typing import Any, cast

import psycopg
from alembic import op

revision = "0012"
down_revision = "0011"

SQL = Path(__file__).parents[1] / "sql"


def upgrade() -> None:
    driver = cast("psycopg.Connection[Any]", op.get_bind().connection.driver_connection)
    driver.execute((SQL / "markers.sql").read_bytes())
