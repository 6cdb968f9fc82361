"""The complete first version of the schema. Each part is a file of literal SQL in `migrations/sql/`.

Its number is 0008 because databases from before the first release may be at 0001 to 0007.
"""

from pathlib import Path
from typing import Any, cast

import psycopg
from alembic import op
from procrastinate.schema import SchemaManager

revision = "0008"
down_revision = None

SQL = Path(__file__).parents[1] / "sql"
PARTS = ("log", "partitions", "append", "archive", "blobs", "builds", "queue")
"""In this order, because some parts refer to earlier ones."""


def upgrade() -> None:
    # The driver's connection, because SQLAlchemy would interpret signs in these multi-statement texts.
    driver = cast("psycopg.Connection[Any]", op.get_bind().connection.driver_connection)
    # The queue's tables come from the installed package, whose version is pinned; a newer one needs a migration.
    driver.execute(SchemaManager.get_schema())
    for part in PARTS:
        driver.execute((SQL / f"{part}.sql").read_bytes())
