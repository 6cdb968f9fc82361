"""The queue's tables are made by the installed package: another version's tables need a migration of their own."""

from __future__ import annotations

from hashlib import sha256

from procrastinate.schema import SchemaManager

MIGRATED = "c70ec4b400a60ad9592787653aae5ae77ae41bf801d56b5bd2712751a07f2009"


def test_the_installed_package_makes_the_tables_that_the_first_version_made() -> None:
    assert sha256(SchemaManager.get_schema().encode()).hexdigest() == MIGRATED
