"""Fills a disk and checks that the log refuses with an error, keeps acknowledged events, and recovers with free space.

Runs as a separate program inside a new mount namespace, on a small temporary file system.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from eventlog.chain import GENESIS, verify_chain
from eventlog.database import open_engine
from eventlog.errors import FlywheelError
from eventlog.events import RunMissing
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Committed, Outcome, Repeated

from .cluster import Cluster
from .skipped import Skipped

_DISK_FULL = "DiskFull"
Request = Callable[[int], Append]

SIZE_MB = 256
_BALLAST_MB = 40
_REFUSALS = 5
_AFTER = 50
_SPARES, _SPARE_MB = 6, 14
"""Spare files, each smaller than a segment of the write-ahead log, without which the server stops."""
_DETAIL_BYTES = 30_000
_MOST_APPENDS = 20_000
_LIMIT_S, _GO_ON_S, _PAUSE_S = 300, 60, 0.5
_MOUNT = 'mount -t tmpfs -o size="$1"m,mode=0755 flywheel-chaos "$0" && shift && exec "$@"'


def full_disk(place: Path) -> dict[str, float]:
    """Fill a small file system in a child process and return its figures. Raises Skipped if mounting is forbidden."""
    place.mkdir()
    if shutil.which("unshare") is None:
        raise Skipped("unshare is not installed, so no separate file system can be mounted")
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    trial = _run([*namespace, "--", "sh", "-c", _MOUNT, str(place), "1", "true"])
    if trial.returncode != 0:
        raise Skipped(f"mounting is forbidden here: {trial.stderr.strip() or trial.returncode}")
    program = [sys.executable, "-m", "benchmarks.chaos.full_disk", str(place)]
    done = _run([*namespace, "--", "sh", "-c", _MOUNT, str(place), str(SIZE_MB), *program])
    if done.returncode != 0:
        raise RuntimeError(f"the full-disk fault failed: {done.stderr.strip()[-2000:]}")
    return {str(key): float(value) for key, value in json.loads(done.stdout.splitlines()[-1]).items()}


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S)


def main(place: Path) -> None:
    """In the child process: fill the disk until appends fail, free space, append again; print the figures as JSON."""
    cluster = Cluster(place / "home")
    try:
        engine = open_engine(cluster.project("disk"), "disk")
        ballast = place / "ballast"
        ballast.write_bytes(bytes(_BALLAST_MB * 2**20))
        for number in range(_SPARES):
            ballast.with_name(f"spare-{number}").write_bytes(bytes(_SPARE_MB * 2**20))
        figures = _fill(engine, cluster, ballast)
        engine.dispose()
    finally:
        cluster.down()
    print(json.dumps(figures))


def _fill(engine: Engine, cluster: Cluster, ballast: Path) -> dict[str, float]:
    """Append until refused for lack of space, then free a little at a time until the write-ahead log runs out too."""
    store, taken, met = PostgresStore(engine), dict[str, Outcome](), Counter[str]()
    last = _until_refused(store, taken, met, _large, range(_MOST_APPENDS))
    for piece in sorted(ballast.parent.glob("spare-*")):
        if met.total() > met[_DISK_FULL]:
            break
        piece.unlink()
        last = _until_refused(store, taken, met, _large, range(last, last + _MOST_APPENDS))
    refused, stopped_not, before = met.total(), met[_DISK_FULL], len(taken)
    for piece in (ballast, *ballast.parent.glob("spare-*")):
        piece.unlink()
    cluster.up()
    deadline = time.monotonic() + _GO_ON_S
    while len(taken) < before + _AFTER and time.monotonic() < deadline:
        last += _tried(store, _small(last), taken, met)
    return {
        "full disk: appends refused": float(refused),
        "full disk: of these, because the server had stopped": float(refused - stopped_not),
        "full disk: appends acknowledged before it": float(before),
        "full disk: appends acknowledged after it": float(len(taken) - before),
    } | _found(store, taken)


def _until_refused(
    store: PostgresStore, taken: dict[str, Outcome], met: Counter[str], request: Request, numbers: range
) -> int:
    """Append until several appends were refused; return the number of the append to retry."""
    number, enough = numbers.start, met.total() + _REFUSALS
    while number < numbers.stop and met.total() < enough:
        if _tried(store, request(number), taken, met):
            number += 1
        else:
            time.sleep(_PAUSE_S)
    return number


def _tried(store: PostgresStore, request: Append, taken: dict[str, Outcome], met: Counter[str]) -> bool:
    try:
        taken[request.key] = store.append([request])[0]
    except (SQLAlchemyError, FlywheelError, OSError) as error:
        met[type(getattr(error, "orig", error)).__name__] += 1
        print(type(error).__name__, str(error).splitlines()[:1], file=sys.stderr)
        return False
    return True


def _large(number: int) -> Append:
    noise = random.Random(number)  # noqa: S311 a number must always give the same request
    return _request(f"large-{number}", noise.randbytes(_DETAIL_BYTES // 2).hex())


def _small(number: int) -> Append:
    return _request(f"small-{number}", "the site did not answer")


def _request(name: str, detail: str) -> Append:
    event = RunMissing(run=name, group="disk", reason="environment_down", detail=detail)
    return Append(f"run/{name}", (event,), "chaos", expect=0, key=name)


def _found(store: PostgresStore, taken: dict[str, Outcome]) -> dict[str, float]:
    rows = list(verify_chain(store.read_stored(), after=START, previous=GENESIS))
    streams = Counter(row.stream for row in rows)
    lost = sum(
        not isinstance(outcome, Committed | Repeated) or rows[outcome.first - 1].stream != f"run/{key}"
        for key, outcome in taken.items()
    )
    meant = {f"run/{key}" for key in taken}
    return {
        "full disk: events lost": float(lost),
        "full disk: events doubled": float(sum(number - 1 for number in streams.values())),
        "full disk: events never acknowledged": float(len(streams.keys() - meant)),
    }


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except FlywheelError as error:
        sys.exit(f"{type(error).__name__}: {error}")
