"""Locks: controllers and admissions append in the session that holds theirs; learning and training may happen twice."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import DataError

from agents.envs.admission import record
from agents.envs.clients.client import EnvClient
from agents.envs.errors import NotAdmitted
from agents.rollouts.dispatching.queue import RolloutQueue
from agents.rollouts.sweep import SeedSweep
from api.controllers.fast import Controller
from api.course import Course
from api.environments.connect import Placed
from api.house import House
from api.locks import admitting_alone, is_controlled, learning_alone, only_controller, training_alone
from api.queries.sweeps import rounds_of
from api.sweeps import worker
from api.sweeps.plan import first_facts, plan
from api.sweeps.play import learn_from
from api.training.stages import working_folder
from eventlog.codec import encode_append
from eventlog.errors import LockLost
from eventlog.postgres import PostgresStore
from eventlog.store import Append, Committed, Conflict, Position, Rejected
from projections.engine.views import PostgresViews
from tests.admitted import admitted, report
from tests.golden.make import Quiet
from tests.golden.test_golden_samples import golden_log, sample
from tests.integration.test_rollouts import MADE
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


def test_a_queued_sweep_is_planned_in_the_session_that_holds_the_lock_or_not_at_all(empty_house: House) -> None:
    house, queue = empty_house, RolloutQueue(empty_house.engine, SITE)
    first_facts(house)
    with only_controller(house, SITE) as own:
        for name in ("s1", "s2"):
            plan(own, own.views(), SITE, SeedSweep(name, MADE[:1], (77, 78), 1), rng_seed=7, queue=queue)
        assert queue.open() == 4
        head = house.store.head()
        end_holder(house.engine)
        with pytest.raises(LockLost):
            plan(own, own.views(), SITE, SeedSweep("s3", MADE[:1], (77, 78), 1), rng_seed=7, queue=queue)
    assert (house.store.head(), queue.open()) == (head, 4)


def test_a_thread_that_outlives_its_controller_appends_nothing_after_the_lock_is_free(empty_house: House) -> None:
    late: list[Future[Any]] = []
    with ThreadPoolExecutor(1) as pool:

        def append_late(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            if "unlock" in statement and not late:
                late.append(pool.submit(own.store.append, [put()]))
                wait(late, timeout=0.3)

        event.listen(empty_house.engine, "after_cursor_execute", append_late)
        with only_controller(empty_house, SITE) as own:
            own.store.append([put()])
        with pytest.raises(LockLost):
            late[0].result(30)
        event.remove(empty_house.engine, "after_cursor_execute", append_late)
    assert empty_house.store.head() == 1


def test_what_was_probed_without_the_lock_of_admission_is_not_recorded(
    empty_house: House, client: EnvClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[House] = []
    monkeypatch.setattr(worker, "first_admission", lambda _placed, _reporter: given.append)
    with pytest.raises(NotAdmitted):
        worker.see_site(empty_house, Placed(cast("Any", None), client), SITE, Quiet())
    assert [house.store.session is None for house in given] == [False]
    with admitting_alone(empty_house, SITE) as own:
        end_holder(empty_house.engine)
        with admitting_alone(empty_house, SITE) as other:
            admitted(other.store, SITE)
        with pytest.raises(LockLost, match=f"the admission of {SITE}"):
            record(own.store, report(SITE, "failed"), "test")
    assert empty_house.store.head() == 2


@pytest.mark.parametrize("alone", [learning_alone, training_alone])
def test_what_may_happen_twice_ends_as_usual_without_its_lock(empty_engine: Engine, alone: Any) -> None:
    with alone(empty_engine, SITE):
        end_holder(empty_engine)


class Behind(House):
    """A house that sees the log as it was when a sweep had just ended: another process learned from it meanwhile."""

    upto = Position(0)

    def views(self, as_of: Position | None = None) -> PostgresViews:
        return super().views(self.upto)


def test_what_is_learned_twice_is_in_the_log_once(house: House) -> None:
    for sweep in rounds_of(house.store, SITE):
        learn_from(house, sweep, Course())
        head = house.store.head()
        streams = {f"run/{spec.spec_id}" for spec in sweep.specs}
        behind = Behind(*(getattr(house, each.name) for each in fields(house)))
        object.__setattr__(behind, "upto", max(each.position for each in golden_log() if each.stream in streams))
        learn_from(behind, sweep, Course())
        assert house.store.head() == head


def test_a_second_attempt_at_a_stage_leaves_the_files_of_the_first_alone(empty_house: House, tmp_path: Path) -> None:
    house = replace(empty_house, settings=empty_house.settings.model_copy(update={"models": tmp_path}))
    stage = cast("Any", SimpleNamespace(name="stage"))

    def second() -> bool:
        with working_folder(house, stage, "training") as folder:
            return not any(folder.iterdir())

    with ThreadPoolExecutor(1) as pool:
        with working_folder(house, stage, "training") as first:
            (first / "rows").touch()
            waiting = pool.submit(second)
            assert not wait([waiting], timeout=0.2).done
            assert (first / "rows").exists()
        assert waiting.result(30)
    assert [each for each in tmp_path.iterdir() if each.is_dir()] == []
