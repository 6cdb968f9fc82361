"""Alembic's entry: the caller passes a connection whose search_path is the project's schema."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, version_table="migration")
with context.begin_transaction():
    context.run_migrations()
