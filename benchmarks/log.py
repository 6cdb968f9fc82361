"""The log: appends against binary COPY into a bare table, and rebuilds against the ordinary loop. One run, fsync on."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import psycopg
from sqlalchemy import Engine, text

from api import embedded
from benchmarks.report import medians, report
from eventlog.database import open_engine
from eventlog.events import RewardGraded, RewardTerms
from eventlog.postgres import PostgresStore
from eventlog.store import Append
from migrations.migrate import migrate
from projections.projector import Projector
from projections.rewards import REWARDS

EVENTS = 4_000
SIZES = (1, 10, 100, 1000)


def reward(number: int) -> RewardGraded:
    """A typical event."""
    return RewardGraded(
        run=f"run-{number}",
        group=f"group-{number // 4}",
        channel="oracle",
        version="oracle-1",
        score=1_000_000,
        passed=True,
        reasons=(),
        terms=RewardTerms(score=1_000_000, lambda_per_dollar=100_000, penalty=240),
        prices=1,
        cost=2_400,
        value=999_760,
    )


def main() -> None:
    """Measure on a server of its own and print the table."""
    with tempfile.TemporaryDirectory(prefix="flywheel-bench-") as folder:
        found = embedded.up(Path(folder))
        try:
            owner = open_engine(found.owner_url)
            migrate(owner, app_role="flywheel")
            engine = open_engine(found.app_url)
            figures = appends(engine, owner) | rebuilds(engine)
            owner.dispose()
            engine.dispose()
        finally:
            embedded.down(Path(folder))
    report("log", figures, {})


def appends(engine: Engine, owner: Engine) -> dict[str, float]:
    """Events a second at each batch size, ours and bare COPY, and the ratio."""
    with owner.begin() as connection:
        connection.execute(text("CREATE TABLE public_copy (position bigserial, payload jsonb)"))
    store = PostgresStore(engine)
    figures: dict[str, float] = {}
    for size in SIZES:
        count = EVENTS if size > 1 else 400
        rates = medians({"ours": ours(store, size, count), "copy": copy(owner, size, count)}, 3)
        figures |= {f"append {name}, {size} a commit, events/s": rate for name, rate in rates.items()}
        figures[f"append ours / copy, {size} a commit"] = rates["ours"] / rates["copy"]
    return figures


def ours(store: PostgresStore, size: int, count: int) -> Callable[[], int]:
    """Append through the store, serialisation included."""

    def run() -> int:
        for start in range(0, count, size):
            store.append([Append("bench", tuple(reward(n) for n in range(start, start + size)), "bench")])
        return count

    return run


def copy(owner: Engine, size: int, count: int) -> Callable[[], int]:
    """Binary COPY of the same payloads into a table without keys, chain or notice."""
    url = owner.url.set(drivername="postgresql").render_as_string(hide_password=False)
    payload = json.dumps(reward(1).model_dump(mode="json"))

    def run() -> int:
        with psycopg.connect(url, autocommit=True) as connection:
            for _ in range(0, count, size):
                with connection.cursor().copy(
                    "COPY flywheel_default.public_copy (payload) FROM STDIN (FORMAT BINARY)"
                ) as sink:
                    sink.set_types(["jsonb"])
                    for _ in range(size):
                        sink.write_row([psycopg.types.json.Jsonb(json.loads(payload))])
        return count

    return run


def rebuilds(engine: Engine) -> dict[str, float]:
    """Events a second through the projector with its rows written, and through a loop that only reads whole events."""
    store = PostgresStore(engine)
    projector = Projector(engine, (REWARDS,))

    def columns() -> int:
        projector.rebuild([REWARDS.name])
        return store.head()

    def loop() -> int:
        return sum(1 for _ in store.read())

    rates = medians({"projector": columns, "loop": loop}, 3)
    return {f"rebuild {name}, events/s": rate for name, rate in rates.items()} | {
        "rebuild projector with rows written / reading alone": rates["projector"] / rates["loop"]
    }


if __name__ == "__main__":
    main()
