"""The controller's lock: the controller appends in the session that holds it, and nothing once it is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DataError

from agents.envs.clients.client import EnvClient
from api.controllers.fast import Controller
from api.course import Course
from api.house import House
from api.locks import is_controlled, only_controller
from eventlog.codec import encode_append
from eventlog.errors import LockLost
from eventlog.postgres import PostgresStore
from eventlog.store import Append, Committed, Conflict, Position, Rejected
from tests.admitted import admitted
from tests.golden.make import Quiet
from tests.golden.test_golden_samples import sample
from tests.sites import SharedSite

SITE = "marketplace"
WON = sample("RewriteWon")
_END = text(
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND pid <> pg_backend_pid()"
)


def end_holder(engine: Engine) -> None:
    """End the session that holds a session lock in the engine's database."""
    with engine.begin() as connection:
        assert connection.execute(_END).scalars().all() == [True]


def put(stream: str = "s", events: int = 1, **changes: int | str) -> Append:
    return Append(stream, (WON,) * events, "test", **changes)  # type: ignore[arg-type]


def test_a_controller_appends_as_every_store_does_while_it_holds_its_lock(empty_house: House) -> None:
    with only_controller(empty_house, SITE) as own:
        assert is_controlled(empty_house.engine, SITE)
        assert list(own.store.append([put(expect=0, key="k"), put(expect=0)])) == [
            Committed(Position(1), Position(1), 1),
            Conflict("s", 0, 1),
        ]
        assert isinstance(own.store.append([put(events=150)])[0], Committed)
        assert own.store.append_together([put("t"), put(expect=7)]) == Rejected((None, Conflict("s", 7, 151)))
        spoiled = encode_append(put("u"))
        with pytest.raises(DataError):
            own.store.append_encoded([replace(spoiled, events=(replace(spoiled.events[0], payload=b"{"),))])
        assert not isinstance(own.store.append_together([put("t", 120), put("u")]), Rejected)
        assert empty_house.store.head() == 272
    assert not is_controlled(empty_house.engine, SITE)
    with pytest.raises(LockLost):
        own.store.append([put()])
    assert empty_house.store.head() == 272


def test_after_a_lost_connection_a_controller_appends_nothing_and_another_one_may_work(empty_house: House) -> None:
    with only_controller(empty_house, SITE) as own:
        own.store.append([put()])
        end_holder(empty_house.engine)
        for _ in range(2):
            with pytest.raises(LockLost, match=r"the controller of marketplace was lost: .*Start it again"):
                own.store.append([put()])
            with pytest.raises(LockLost):
                own.store.append_together([put(), put("t")])
        with only_controller(empty_house, SITE) as other:
            assert isinstance(other.store.append([put("other")])[0], Committed)
            with pytest.raises(LockLost):
                own.store.append([put()])
            assert is_controlled(empty_house.engine, SITE)
    assert [each.stream for each in empty_house.store.read()] == ["s", "other"]


@dataclass
class Cutting:
    """A signal to stop that never comes; when it is asked for the second time, the lock's connection is ended."""

    engine: Engine
    store: PostgresStore
    asked: int = 0
    heads: list[int] = field(default_factory=list)

    def __call__(self) -> bool:
        self.asked += 1
        if self.asked == 2:
            end_holder(self.engine)
            self.heads.append(self.store.head())
        return False


@pytest.fixture
def client(shared_site: SharedSite) -> Iterator[EnvClient]:
    site = shared_site(SITE)
    with EnvClient(site.admin_url, site.admin_token) as opened:
        yield opened


def test_a_controller_that_lost_its_lock_stops_before_its_next_event(empty_house: House, client: EnvClient) -> None:
    """After the first step a sweep is planned, so the next one plays it."""
    house = empty_house
    admitted(house.store, SITE)
    course = Course(seeds_per_round=1, siblings=1, visible_seeds=(), sealed_seeds=(10_000,), max_rounds=1)
    cutting = Cutting(house.engine, house.store)
    controller = Controller(house, client, SITE, course, Quiet(), is_told_to_stop=cutting)
    with pytest.raises(LockLost):
        controller.run()
    assert cutting.heads == [house.store.head()]
    counts = house.store.counts()
    assert counts["SweepPlanned"] == 1
    assert "RunStarted" not in counts
    with only_controller(house, SITE) as own:
        assert isinstance(own.store.append([put()])[0], Committed)
