"""The job queue: Procrastinate's own tables, what was parked with which error, and profiles of state keys.

Its schema comes from the installed package, whose version is pinned; a newer one needs a migration of its own.
"""

from typing import Any, cast

import psycopg
from alembic import op
from procrastinate.schema import SchemaManager

revision = "0007"
down_revision = "0006"

BESIDE = """
CREATE TABLE parked_jobs (
    job   bigint      PRIMARY KEY REFERENCES procrastinate_jobs (id) ON DELETE CASCADE,
    error text        NOT NULL,
    at    timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE profiles (
    name   text        PRIMARY KEY,
    ticket bigint      NOT NULL,
    body   bytea,
    at     timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE parked_jobs IS 'jobs that are not tried again by themselves, and the error of their last try';
COMMENT ON COLUMN profiles.ticket IS 'only the newest one handed out may hand the profile in';
COMMENT ON COLUMN profiles.body IS 'cookies and last address as JSON; NULL: never handed in';
"""


def upgrade() -> None:
    # The driver's own connection: the schema is one text of many statements with signs that SQLAlchemy would read.
    driver = cast("psycopg.Connection[Any]", op.get_bind().connection.driver_connection)
    driver.execute(SchemaManager.get_schema())
    op.execute(BESIDE)
