"""What tests share they cannot change: a try is refused, and fails the test even where nobody saw the refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from api.tokens import issue
from eventlog.database import open_engine
from eventlog.postgres import PostgresStore
from projections import ALL
from projections.engine.builds import live_builds, lock_builds
from projections.engine.projector import Projector
from tests.conftest import Database
from tests.shared import Shared

Failed = pytest.fail.Exception


@pytest.fixture
def shared(clone: Callable[[str], Database]) -> Iterator[Shared]:
    """A shared database that no other test shares."""
    with closing(Shared(clone("seeded"), has_token=True)) as made:
        yield made


@pytest.fixture
def owner(shared: Shared) -> Iterator[Engine]:
    """The owner of its schema."""
    opened = open_engine(shared.database.owner_url)
    yield opened
    opened.dispose()


def test_reading_and_folding_at_the_head_change_nothing(shared: Shared) -> None:
    with shared.read():
        head = Projector(shared.engine).catch_up()
        with shared.engine.begin() as connection:
            builds, _ = live_builds(connection, ALL)
            assert [build.position for build in lock_builds(connection, builds)] == [head] * len(ALL)


def test_an_append_is_refused_and_fails_the_test_that_swallows_the_refusal(shared: Shared) -> None:
    store = PostgresStore(shared.engine)
    head = store.head()
    with pytest.raises(Failed, match="tried 1 times to change"), shared.read(), suppress(DBAPIError):
        issue(store, "another", "test")
    with shared.read():
        assert store.head() == head


def test_no_table_takes_a_change_not_even_from_the_owner_and_of_no_row(shared: Shared, owner: Engine) -> None:
    with owner.connect() as connection:
        names = connection.execute(text("SELECT relid::regclass::text FROM pg_stat_user_tables")).scalars().all()
    assert {"events", "events_1", "builds", "fold_rows", "blobs", "migration"} <= set(names)
    for name in names:
        with (
            pytest.raises(Failed, match="tried 1 times"),
            shared.read(),
            pytest.raises(DBAPIError, match=r"DELETE on .* is refused"),
            owner.begin() as connection,
        ):
            connection.execute(text(f"DELETE FROM {name} WHERE false"))  # noqa: S608 ours


@pytest.mark.parametrize("change", ["CREATE TABLE other (n integer)", "ALTER TABLE blobs DISABLE TRIGGER USER"])
def test_a_change_of_the_schema_fails_the_test(shared: Shared, owner: Engine, change: str) -> None:
    with pytest.raises(Failed, match="changed the schema"), shared.read(), owner.begin() as connection:
        connection.execute(text(change))
