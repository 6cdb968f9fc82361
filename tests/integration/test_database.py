"""Opening a project: what is wrong with the address, the server or the name is said by name."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from sqlalchemy import Engine, make_url, text

from eventlog.database import open_engine, project_schema, schema_name
from eventlog.errors import BadProjectName, LogUnavailable
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Committed, Position
from migrations.migrate import migrate
from projections.costs import COSTS, PRICES
from projections.engine.projector import Projector
from projections.engine.views import catch_up_views
from tests.conftest import Database
from tests.golden.test_golden_samples import sample


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(LogUnavailable, match="FLYWHEEL_DATABASE_URL"):
        open_engine(f"postgresql://nobody@127.0.0.1:{closed_port()}/none")


@pytest.mark.parametrize("url", ["", "nonsense", "postgresql://h:port/d", "sqlite://", "mysql://root@localhost/d"])
def test_an_address_that_is_no_postgresql_is_unavailable(url: str) -> None:
    with pytest.raises(LogUnavailable):
        open_engine(url)


def test_a_database_that_is_not_there_and_a_wrong_password_are_unavailable_without_the_password(
    server: Database,
) -> None:
    for url in (
        server.named("no_such_database").app_url,
        make_url(server.app_url).set(username="no_such_role", password="geheim").render_as_string(hide_password=False),
    ):
        with pytest.raises(LogUnavailable) as caught:
            open_engine(url)
        assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["", "A", "1a", "a-b", "a b", "a.b", 'a"; DROP SCHEMA public; --', "ä", "a" * 41, "a\n"]
)
def test_a_name_that_is_no_plain_word_is_refused_before_anything_is_opened(name: str) -> None:
    with pytest.raises(BadProjectName):
        open_engine("postgresql://nobody@127.0.0.1:1/none", name)


@pytest.mark.parametrize("name", ["a", "default", "a_1", "a" * 40])
def test_a_plain_word_names_a_schema_of_its_own(name: str) -> None:
    assert schema_name(name) == f"flywheel_{name}"


@pytest.mark.parametrize("driver", ["postgresql", "postgres", "postgresql+psycopg"])
def test_any_way_to_write_postgresql_opens_the_same_database(empty_database: Database, driver: str) -> None:
    url = empty_database.app_url.replace("postgresql+psycopg", driver, 1)
    engine = open_engine(url)
    assert PostgresStore(engine).head() == START
    engine.dispose()


def test_a_connection_sees_its_projects_schema_and_universal_time(engine: Engine) -> None:
    with engine.connect() as connection:
        path = connection.execute(text("SELECT current_schema(), current_setting('TimeZone')")).one()
    assert tuple(path) == (project_schema(engine), "UTC") == ("flywheel_default", "UTC")


@dataclass(frozen=True)
class Pair:
    """Two projects of one database."""

    first: Engine
    second: Engine


@pytest.fixture
def pair(clone: Callable[[str], Database]) -> Callable[[], Pair]:
    """A function that opens a golden log and, beside it in one database, an empty log of another project."""

    def make() -> Pair:
        database = clone("seeded")
        owner = open_engine(database.owner_url, "second")
        migrate(owner, app_role=database.app_role)
        owner.dispose()
        return Pair(open_engine(database.app_url), open_engine(database.app_url, "second"))

    return make


def test_projects_of_one_database_share_neither_log_nor_keys_nor_projections(pair: Callable[[], Pair]) -> None:
    both = pair()
    first, second = PostgresStore(both.first), PostgresStore(both.second)
    head = first.head()
    assert second.head() == START
    book = Append("prices", (sample("PriceBookSet", version=77),), "test", expect=0, key="prices:1")
    assert list(second.append([book])) == [Committed(Position(1), Position(1), 1)]
    assert first.head() == head
    state = catch_up_views(Projector(both.second), both.second, second).get(COSTS, PRICES)
    assert state is not None
    assert state.book is not None
    assert state.book.version == 77
    other = catch_up_views(Projector(both.first), both.first, first).get(COSTS, PRICES)
    assert other is not None
    assert other.book is not None
    assert other.book.version != 77
    for engine in (both.first, both.second):
        engine.dispose()


def test_a_project_does_not_wait_for_another_ones_append(pair: Callable[[], Pair]) -> None:
    both = pair()
    with both.first.connect() as holding:
        holding.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/append', 0))"))
        with ThreadPoolExecutor(1) as pool:
            request = Append("s", (sample("RewriteWon"),), "test")
            outcomes = pool.submit(PostgresStore(both.second).append, [request]).result(10)
        assert list(outcomes) == [Committed(Position(1), Position(1), 1)]
        holding.rollback()
    for engine in (both.first, both.second):
        engine.dispose()


def test_a_subscriber_of_one_project_hears_its_own_events_alone(pair: Callable[[], Pair]) -> None:
    both = pair()
    first, second = PostgresStore(both.first), PostgresStore(both.second)
    second.append([Append("s", (sample("RewriteWon"),), "test")])
    head = first.head()
    batches = list(first.subscribe(after=head, until=lambda last: last == head))
    assert batches == []
    for engine in (both.first, both.second):
        engine.dispose()
