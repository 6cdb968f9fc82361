"""Create the three roles and the database, with idempotent SQL."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from .layout import PORT, Layout
from .postmaster import patience_s
from .record import ADMIN, APP, DATABASE, OWNER, Passwords

ATTRIBUTES = {
    OWNER: "LOGIN NOSUPERUSER CREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS",
    APP: "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS",
}


def connect_as(
    role: str, passwords: Passwords, layout: Layout, deadline: float, *, database: str = DATABASE
) -> psycopg.Connection[Any]:
    """Return an autocommit connection as the role. Raises psycopg.OperationalError."""
    return psycopg.connect(
        host=str(layout.sockets),
        port=PORT,
        user=role,
        password=passwords.of(role),
        dbname=database,
        connect_timeout=patience_s(deadline),
        autocommit=True,
    )


def ensure_roles(passwords: Passwords, layout: Layout, deadline: float) -> None:
    """Create or repair the roles, the database and the grants; the application can connect only once all is done."""
    with connect_as(ADMIN, passwords, layout, deadline, database="postgres") as admin:
        _role(admin, OWNER, passwords)
        if not admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
            admin.execute(
                sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(DATABASE), sql.Identifier(OWNER))
            )
    with connect_as(ADMIN, passwords, layout, deadline) as admin, admin.transaction():
        names = {"database": sql.Identifier(DATABASE), "owner": sql.Identifier(OWNER)}
        names |= {"app": sql.Identifier(APP), "admin": sql.Identifier(ADMIN)}
        _role(admin, APP, passwords)
        for statement in (
            "ALTER DATABASE {database} OWNER TO {owner}",
            "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
            "REVOKE ALL ON FUNCTION lo_create(oid), lo_creat(integer), lo_from_bytea(oid, bytea) FROM PUBLIC",
            "REVOKE ALL ON FUNCTION lo_import(text), lo_import(text, oid) FROM PUBLIC",
            "REVOKE CONNECT, TEMPORARY ON DATABASE {database} FROM PUBLIC",
            "GRANT CONNECT ON DATABASE {database} TO {admin}, {owner}, {app}",
        ):
            admin.execute(sql.SQL(statement).format(**names))


def _role(admin: psycopg.Connection[Any], role: str, passwords: Passwords) -> None:
    """Create or update a role. The statement has only the SCRAM verifier, so a statement log shows no password."""
    if not admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
        admin.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
    verifier = admin.pgconn.encrypt_password(passwords.of(role).encode(), role.encode(), b"scram-sha-256").decode()
    admin.execute(
        sql.SQL("ALTER ROLE {} {} PASSWORD {}").format(
            sql.Identifier(role), sql.SQL(ATTRIBUTES[role]), sql.Literal(verifier)
        )
    )
