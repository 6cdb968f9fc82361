"""`make soak`: a service under load, two workers and faults for half an hour; says whether what they hold stays flat.

At shares of the time: old events are archived, PostgreSQL's clock jumps forward and back (libfaketime, as in `make
chaos`), PostgreSQL is killed and comes back, and segments of the archive are changed. The exit code is 1 if a target is
missed, because a soak is asked for its answer.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from unittest.mock import patch

import typer
from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from api.embedded.account import ENVIRONMENT
from benchmarks.chaos.clock import faked
from benchmarks.chaos.cluster import Cluster
from benchmarks.chaos.skipped import Skipped
from benchmarks.report import Target, at_least, at_most, report
from eventlog.database import open_engine

from .faults import flywheel, restart, tampered_is_found
from .flatness import growth
from .load import Load
from .processes import Program

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "soak.md"
PROJECT = "default"
ARCHIVE_AT, FORWARD_AT, BACK_AT, RESTART_AT, TAMPER_AT = 0.15, 0.3, 0.45, 0.6, 0.8
"""Shares of the time. The last third of the samples begins after the restart, so that what it leaks shows as growth."""

FORWARD, BACK = "+3h", "-1h"
_SAMPLES = 360
_READ_AGAIN_S = 1.5
_JUMPS: Mapping[str, Target] = {
    "hours that the clock jumped forward": at_least(2.9),
    "hours that the clock jumped back": at_most(-3.9),
}
"""Hours, with what went by meanwhile."""
_KEPT_EVENTS = 200
_SEGMENT = 1_000
_RUNS_A_SWEEP = 24
_WRITERS, _READERS = 3, 2


@dataclass
class Soak:
    """Everything that runs during a soak, and what was seen of it."""

    folder: Path
    cluster: Cluster
    offset: Path
    env: Mapping[str, str]
    engine: Engine
    programs: list[Program]
    load: Load
    connections: list[float]
    sweeps: int = 0

    def sample(self) -> None:
        """Note what each process holds, and the connections of PostgreSQL."""
        for program in self.programs:
            program.revive()
            program.sample()
        try:
            with self.engine.connect() as connection:
                asked = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
                self.connections.append(float(connection.execute(text(asked)).scalar_one()) - 1)
        except SQLAlchemyError:
            self.engine.dispose()

    def feed(self) -> None:
        """Plan another sweep for the workers."""
        self.sweeps += 1
        first = self.sweeps * _RUNS_A_SWEEP
        words = ["rollout", "sweep", "marketplace", "--plan-only", "--sweep", f"soak-{self.sweeps}", "--siblings", "2"]
        flywheel([*words, "--seeds", f"{first}-{first + 5}"], self.env)


def main(
    minutes: Annotated[float, typer.Option(min=1, help="How long, in minutes.")] = 30,
    rate: Annotated[float, typer.Option(min=0.1, help="Requests per second of each of five clients.")] = 4,
    write: Annotated[bool, typer.Option("--write", help=f"Also write the table into {PAGE.name}.")] = False,  # noqa: FBT002 Typer makes an option of it
) -> None:
    """Watch a service and its workers for growth, under load and faults."""
    with tempfile.TemporaryDirectory(prefix="flywheel-soak-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        offset = folder / "offset"
        offset.write_text("+0", encoding="utf-8")
        left_out: dict[str, str] = {}
        try:
            fake = faked(offset)
        except Skipped as reason:
            fake, left_out = {}, {"clock jump": str(reason)}
        with patch.dict(ENVIRONMENT, fake), _start_soak(folder, offset, rate) as soak:
            figures = _run(soak, minutes * 60, has_clock=bool(fake))
    note = (
        f"{minutes:g} minutes, {_WRITERS} writing and {_READERS} reading clients with {rate:g} requests a second each."
    )
    missed = report("soak", figures, targets(figures), left_out=left_out, page=PAGE if write else None, note=note)
    sys.exit(1 if missed else 0)


@contextmanager
def _start_soak(folder: Path, offset: Path, rate: float) -> Iterator[Soak]:
    cluster = Cluster(folder / "home")
    url, owner = cluster.project(PROJECT), cluster.up().owner_url
    places = {"HOME": folder / "own", "ARCHIVE": folder / "archive", "KEYS": folder / "keys"}
    env = {f"FLYWHEEL_{name}": str(place) for name, place in places.items()}
    env |= {"FLYWHEEL_DATABASE_URL": url, "FLYWHEEL_OWNER_URL": owner, "FLYWHEEL_PROJECT": PROJECT}
    serve = Program("serve", ("serve", "--port", "0"), env, folder)
    workers = [Program(f"worker-{number}", ("worker", "--max-parallel", "2"), env, folder) for number in (1, 2)]
    engine = open_engine(url, PROJECT)
    load = Load("", "", rate)
    try:
        serve.start()
        load.token = serve.await_line("Admin token for the REST API: ")
        load.url = serve.await_line("Serving on ").partition(". ")[0]
        soak = Soak(folder, cluster, offset, env, engine, [serve, *workers], load, [])
        soak.feed()
        for worker in workers:
            worker.start()
        load.start(_WRITERS, _READERS)
        yield soak
    finally:
        load.stop()
        for program in (serve, *workers):
            program.stop()
        engine.dispose()
        cluster.down()


def _run(soak: Soak, seconds: float, *, has_clock: bool) -> dict[str, float]:
    """Let everything run for so long, with the faults at their shares of it; the figures."""
    figures: dict[str, float] = {}
    began = time.monotonic()
    waiting = sorted(_faults(soak, seconds, figures, has_clock=has_clock), key=lambda each: each[0])
    next_feed, feed_every = began + seconds / 20, max(20.0, seconds / 40)
    while (now := time.monotonic()) < began + seconds or waiting:
        soak.sample()
        if waiting and now >= began + seconds * waiting[0][0]:
            share, what, fault = waiting.pop(0)
            print(f"{share:.0%}: {what}", flush=True)
            fault()
        elif now >= next_feed:
            soak.feed()
            next_feed = time.monotonic() + feed_every
        time.sleep(max(0.0, now + seconds / _SAMPLES - time.monotonic()))
    soak.load.stop()
    return figures | _sum_up(soak) | _check_log(soak)


def _faults(
    soak: Soak, seconds: float, figures: dict[str, float], *, has_clock: bool
) -> Iterator[tuple[float, str, Callable[[], None]]]:
    def archive() -> None:
        words = ("log", "archive", "--keep", str(_KEPT_EVENTS), "--segment-size", str(_SEGMENT), "--drop", "--yes")
        done = flywheel(words, soak.env)
        figures["archive commands that failed"] = float(done.returncode != 0)
        print(done.stdout + done.stderr, flush=True)

    def tamper() -> None:
        changed, found = tampered_is_found(soak.folder / "archive", soak.folder / "changed", soak.env)
        figures["segments changed"], figures["changed segments found by verify"] = float(changed), float(found)

    def jump(shift: str, way: str) -> None:
        before = _server_time(soak.engine)
        soak.offset.write_text(shift, encoding="utf-8")
        figures[f"hours that the clock jumped {way}"] = round((_server_time(soak.engine) - before) / 3600, 2)

    yield ARCHIVE_AT, "old events are archived and dropped", archive
    if has_clock:
        yield FORWARD_AT, f"PostgreSQL's clock jumps to {FORWARD}", lambda: jump(FORWARD, "forward")
        yield BACK_AT, f"PostgreSQL's clock jumps to {BACK}", lambda: jump(BACK, "back")
    outage_s = min(60.0, seconds / 20)
    yield RESTART_AT, f"PostgreSQL is killed for {outage_s:.0f} s", lambda: restart(soak.cluster, outage_s)
    yield TAMPER_AT, "segments are changed", tamper


def _server_time(engine: Engine) -> float:
    """The seconds since 1970 that PostgreSQL's clock tells; libfaketime reads the offset again within a second."""
    time.sleep(_READ_AGAIN_S)
    with engine.connect() as connection:
        return float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())


def _sum_up(soak: Soak) -> dict[str, float]:
    """Counts of answers, and the growth of everything that was sampled."""
    answers = soak.load.answers
    figures = {f"answers {status}": float(number) for status, number in sorted(answers.items())}
    figures["answers 5xx but 503"] = float(
        sum(number for status, number in answers.items() if status[0] == "5" and status != "503")
    )
    for line in soak.load.defects[:20]:
        print(line)
    series = {(program.name, measure): found for program in soak.programs for measure, found in program.samples.items()}
    series["PostgreSQL", "connections"] = soak.connections
    for (name, measure), samples in series.items():
        found = growth(measure, samples)
        if found is not None:
            figures[f"{name}: {measure}, middle third"], figures[f"{name}: {measure}, last third"] = (
                found.middle,
                found.last,
            )
            figures[f"{name}: {measure} above what is flat"] = max(0.0, found.last - found.middle - found.allowed)
    for program in soak.programs:
        figures[f"{program.name}: ended by itself"] = float(program.ended)
        if program.ended:
            print(
                f"--- end of {program.log.name}\n"
                + "\n".join(program.log.read_text("utf-8", "replace").splitlines()[-30:])
            )
    return figures


def _check_log(soak: Soak) -> dict[str, float]:
    """Whether the log and every projection verify at the end, and how many runs the workers have played."""
    verified = flywheel(("log", "verify"), soak.env)
    folded = flywheel(("replay", "--verify"), soak.env)
    print(verified.stdout + verified.stderr + folded.stdout + folded.stderr)
    soak.engine.dispose()  # its connections may be from before the restart
    with soak.engine.connect() as connection:
        asked = "SELECT count(*) FROM events WHERE type = 'RunFinished' AND stream NOT LIKE 'run/ext-%'"
        played = float(connection.execute(text(asked)).scalar_one())
    return {
        "runs played by workers, in the table": played,
        "log that does not verify": float(verified.returncode != 0),
        "projections that differ from a re-fold": float(folded.returncode != 0),
    }


def targets(figures: Mapping[str, float]) -> dict[str, float | Target]:
    """Targets of the figures: nothing grows, nothing ends by itself, changes are found, answers are no defects."""
    nothing = [
        name
        for name in figures
        if name.endswith(("above what is flat", "ended by itself"))
        or name in {"answers 5xx but 503", "log that does not verify", "projections that differ from a re-fold"}
        or name == "archive commands that failed"
    ]
    changed = figures.get("segments changed", 0)
    return {
        **{name: at_most(0) for name in nothing},
        **{name: jump for name, jump in _JUMPS.items() if name in figures},
        "segments changed": at_least(1),
        "changed segments found by verify": at_least(changed),
        "runs played by workers, in the table": at_least(1),
    }


if __name__ == "__main__":
    typer.run(main)
