"""A disk that fills up: the log refuses with an error, keeps what it acknowledged, goes on when there is space.

Run as a program inside a mount namespace of its own, on a small file system that ends with it.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from sqlalchemy import Engine

from eventlog.chain import GENESIS, verified
from eventlog.database import open_engine
from eventlog.errors import FlywheelError
from eventlog.events import RunMissing
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Committed, Outcome, Repeated

from .cluster import Cluster
from .skipped import Skipped

SIZE_MB = 256
_BALLAST_MB = 112
_REFUSALS = 5
_AFTER = 50
_DETAIL_BYTES = 30_000
_MOST_APPENDS = 20_000
_LIMIT_S, _GO_ON_S = 300, 60
_MOUNT = 'mount -t tmpfs -o size="$1"m,mode=0755 flywheel-chaos "$0" && shift && exec "$@"'


def full_disk(place: Path) -> dict[str, float]:
    """Fill a small file system in a child process; figures. Raises Skipped where mounting is forbidden."""
    place.mkdir()
    if shutil.which("unshare") is None:
        raise Skipped("there is no unshare, so no file system of its own can be mounted")
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    trial = _run([*namespace, "--", "sh", "-c", _MOUNT, str(place), "1", "true"])
    if trial.returncode != 0:
        raise Skipped(f"mounting is forbidden here: {trial.stderr.strip() or trial.returncode}")
    program = [sys.executable, "-m", "benchmarks.chaos.full_disk", str(place)]
    done = _run([*namespace, "--", "sh", "-c", _MOUNT, str(place), str(SIZE_MB), *program])
    if done.returncode != 0:
        raise RuntimeError(f"the fault of a full disk broke off: {done.stderr.strip()[-2000:]}")
    return {str(key): float(value) for key, value in json.loads(done.stdout.splitlines()[-1]).items()}


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S)


def main(place: Path) -> None:
    """Inside: fill, be refused, make room, go on; print the figures as JSON."""
    cluster = Cluster(place / "home")
    try:
        engine = open_engine(cluster.project("disk"), "disk")
        ballast = place / "ballast"
        ballast.write_bytes(secrets.token_bytes(_BALLAST_MB * 2**20))
        figures = _fill(engine, cluster, ballast)
        engine.dispose()
    finally:
        cluster.down()
    print(json.dumps(figures))


def _fill(engine: Engine, cluster: Cluster, ballast: Path) -> dict[str, float]:
    store, taken, met = PostgresStore(engine), dict[str, Outcome](), Counter[str]()
    number = 0
    while met.total() < _REFUSALS and number < _MOST_APPENDS:
        request = _request(number)
        outcome = _tried(store, request, met)
        if outcome is not None:
            taken[request.key] = outcome
            number += 1
        else:
            time.sleep(0.5)
    refused_at = number
    ballast.unlink()
    cluster.up()
    refused, deadline = met.total(), time.monotonic() + _GO_ON_S
    while number < refused_at + _AFTER and time.monotonic() < deadline:
        request = _request(number)
        outcome = _tried(store, request, met)
        if outcome is not None:
            taken[request.key] = outcome
            number += 1
    return _found(store, taken, refused, refused_at)


def _tried(store: PostgresStore, request: Append, met: Counter[str]) -> Outcome | None:
    try:
        return store.append([request])[0]
    except Exception as error:  # noqa: BLE001 what kind of error a full disk gives is what is asked here
        met[type(error).__name__] += 1
        print(type(error).__name__, str(error)[:300], file=sys.stderr)
        return None


def _request(number: int) -> Append:
    noise = random.Random(number)  # noqa: S311 the same number must give the same request
    detail = noise.randbytes(_DETAIL_BYTES // 2).hex() if number % 2 else "short"
    event = RunMissing(run=f"disk-{number}", group="disk", reason="environment_down", detail=detail)
    return Append(f"run/disk-{number}", (event,), "chaos", expect=0, key=f"disk:{number}")


def _found(store: PostgresStore, taken: dict[str, Outcome], refused: int, before: int) -> dict[str, float]:
    rows = list(verified(store.stored(), after=START, previous=GENESIS))
    streams = Counter(row.stream for row in rows)
    expected = {f"run/disk-{key.partition(':')[2]}": outcome for key, outcome in taken.items()}
    lost = sum(
        not isinstance(outcome, Committed | Repeated) or rows[outcome.first - 1].stream != stream
        for stream, outcome in expected.items()
    )
    return {
        "full disk: appends acknowledged before it": float(before),
        "full disk: appends refused with an error": float(refused),
        "full disk: appends acknowledged after it": float(len(taken) - before),
        "full disk: events lost": float(lost),
        "full disk: events nobody meant or doubled": float(
            len(rows) - len(expected) + sum(n > 1 for n in streams.values())
        ),
    }


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except FlywheelError as error:
        sys.exit(f"{type(error).__name__}: {error}")
