"""Database migrations: literal SQL, run by Alembic."""
