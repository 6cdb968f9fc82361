"""`make bench-capture`: the capture proxy beside calling the model server directly, taken in turns in one run."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Annotated, Final

import httpx2
import typer

from api.tokens import issue
from benchmarks.log.server import Server, own_server, version
from benchmarks.report import at_least, at_most, report
from eventlog.postgres import PostgresStore

from .killed import cut_streams, what_became

ROOT = Path(__file__).parents[2]
FLYWHEEL: Final = (sys.executable, "-c", "from api.cli.main import main; main()")
PAGE = ROOT / "docs" / "benchmarks" / "capture.md"
PROJECT = "serving"
THINK_MS: Final = 200
LONG_MS: Final = 20_000
"""How long a stream takes, during which the proxy is killed."""
TURNS: Final = 8
PARALLEL: Final = 16
BODY: Final = {"model": "policy", "messages": [{"role": "user", "content": "How much is 2 + 2?"}], "max_tokens": 32}


@dataclass(frozen=True, slots=True)
class Address:
    """Where to call, and with what key. `{run}` in the address is replaced by a new run's name."""

    url: str
    key: str

    def url_of(self, run: str) -> str:
        """The address for a run."""
        return self.url.format(run=run)


def main(
    *,
    calls: Annotated[int, typer.Option(min=TURNS * PARALLEL, help="Calls of each arm, for 16 callers.")] = 2_560,
    quick: Annotated[bool, typer.Option("--quick", help="128 calls, as a trial.")] = False,
    write: Annotated[bool, typer.Option("--write", help=f"Also write the table into {PAGE.name}.")] = False,
) -> None:
    """Call a model server that thinks 200 ms, directly and through the proxy, with 1 and 16 callers."""
    if write and quick:
        raise typer.BadParameter("--write needs a full run: omit --quick")
    number = TURNS * PARALLEL if quick else calls
    with own_server() as server, _model_server() as upstream:
        note = _prepare(server) + f"; load average {os.getloadavg()[0]:.1f} at the start"
        with _proxy(server, upstream) as (address, process):
            found, asked = _measure(Address(f"{upstream}/chat/completions", "none"), address, number, process)
            found |= _count_recorded(server, asked)
        found |= _kill(server)
    targets = {
        f"calls a second with {PARALLEL} callers, to calling directly": at_least(0.95),
        "calls that are not in the log": at_most(0),
        "of them, runs that are not recorded as missing": at_most(0),
        "of them, runs with a reward": at_most(0),
    }
    note += f"; {TURNS} turns of {number // TURNS} calls an arm."
    report("capture", found, targets, page=PAGE if write else None, note=note)


def _prepare(server: Server) -> str:
    server.project(PROJECT)
    owner = server.owner(PROJECT)
    note = f"PostgreSQL {version(owner)}, fsync on, {os.cpu_count()} cores, a model server that thinks {THINK_MS} ms"
    owner.dispose()
    return note


@contextmanager
def _model_server(think_ms: int = THINK_MS) -> Iterator[str]:
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.capture.thinker", str(think_ms)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        yield next(line.strip() for line in child.stdout or ())
    finally:
        child.kill()
        child.wait()


def _settings(server: Server) -> dict[str, str]:
    own = {
        "FLYWHEEL_DATABASE_URL": server.app_url,
        "FLYWHEEL_OWNER_URL": server.owner_url,
        "FLYWHEEL_PROJECT": PROJECT,
    }
    return {**os.environ, **own}


@contextmanager
def _proxy(server: Server, upstream: str, name: str = "bench") -> Iterator[tuple[Address, int]]:
    own = {**_settings(server), "FLYWHEEL_MODEL": "policy", "FLYWHEEL_MODEL_URL": upstream}
    with _store_of(server) as store:
        token = issue(store, name, "bench")
    child = subprocess.Popen([*FLYWHEEL, "serve", "--port", "0"], env=own, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        said = next(line for line in child.stdout or () if "Serving on" in line)
        base = said.split("Serving on ")[1].split()[0].rstrip(".")
        yield Address(f"{base}/{{run}}/v1/chat/completions", token), child.pid
    finally:
        child.terminate()
        child.wait()


@contextmanager
def _store_of(server: Server) -> Iterator[PostgresStore]:
    engine = server.engine(PROJECT)
    yield PostgresStore(engine)
    engine.dispose()


def _kill(server: Server) -> dict[str, float]:
    """What becomes of runs whose proxy is killed under their streams."""
    with _model_server(LONG_MS) as slow, _proxy(server, slow, "killed") as (address, process):
        runs, ended = cut_streams(address.url_of, address.key, BODY, process)
    given_up = [*FLYWHEEL, "runs", "abandon", "--hours", "0", "--yes"]
    subprocess.run(given_up, env=_settings(server), check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    with _store_of(server) as store:
        return what_became(store, runs) | {"of them, streams that ended whole": ended}


def _measure(direct: Address, proxied: Address, number: int, process: int) -> tuple[dict[str, float], int]:
    """The figures, and how many calls the proxy was asked. Arms take turns, so that other work meets both alike."""
    found: dict[str, float] = {}
    asked = 0
    for callers in (1, PARALLEL):
        each = (number if callers > 1 else max(32, number // PARALLEL)) // TURNS // callers * callers
        rates: dict[str, list[float]] = {"direct": [], "proxied": []}
        waits: dict[str, list[float]] = {"direct": [], "proxied": []}
        spent = 0.0
        for turn in range(-1, TURNS):  # the first warms both up and is not counted
            for name, address in (("direct", direct), ("proxied", proxied)):
                before = _cpu_seconds(process)
                took, seconds = _call(address, callers, each, f"ext-{callers}")
                asked += each + callers if name == "proxied" else 0
                if turn >= 0:
                    rates[name].append(each / seconds)
                    waits[name] += took
                    spent += _cpu_seconds(process) - before if name == "proxied" else 0
        further = _figures(callers, rates, waits)
        found |= {**further, f"proxy's CPU-ms a call with {_who(callers)}": 1000 * spent / (TURNS * (each + callers))}
    return found, asked


def _figures(callers: int, rates: Mapping[str, list[float]], waits: Mapping[str, list[float]]) -> dict[str, float]:
    sorted_waits = {name: sorted(own) for name, own in waits.items()}
    overhead = {
        share: 1000 * (_at(sorted_waits["proxied"], share) - _at(sorted_waits["direct"], share)) for share in (50, 99)
    }
    ratio = statistics.median(ours / theirs for ours, theirs in zip(rates["proxied"], rates["direct"], strict=True))
    who = _who(callers)
    return {
        f"ms that the proxy adds at p50 with {who}": overhead[50],
        f"ms that the proxy adds at p99 with {who}": overhead[99],
        f"calls a second with {who}, to calling directly": ratio,
    }


def _who(callers: int) -> str:
    return f"{callers} caller{'s' if callers > 1 else ''}"


def _at(values: list[float], share: int) -> float:
    return values[min(len(values) - 1, len(values) * share // 100)]


def _call(address: Address, callers: int, number: int, run: str) -> tuple[list[float], float]:
    """Seconds of each call, and of all of them together; each caller has a run and a connection of its own.

    Before these each makes one call that is not counted and opens its connection: those of the turn before are closed.
    """
    are_open = Barrier(callers)

    def caller(place: int) -> tuple[float, list[float], float]:
        with httpx2.Client(timeout=60, headers={"Authorization": f"Bearer {address.key}"}) as client:
            own = address.url_of(f"{run}-{place}")
            try:
                _ask(client, own)
            except BaseException:
                are_open.abort()  # the others would wait for this one
                raise
            are_open.wait(60)
            began = time.perf_counter()
            return began, [_timed(lambda: _ask(client, own)) for _ in range(number // callers)], time.perf_counter()

    with ThreadPoolExecutor(callers) as pool:
        waiting = [pool.submit(caller, place) for place in range(callers)]
    problems = [problem for each in waiting if (problem := each.exception()) is not None]
    for problem in sorted(problems, key=lambda each: isinstance(each, BrokenBarrierError)):
        raise problem  # the cause before those that waited for it
    begun, took, ended = zip(*(each.result() for each in waiting), strict=True)
    return [seconds for each in took for seconds in each], max(ended) - min(begun)


def _ask(client: httpx2.Client, url: str) -> None:
    answer = client.post(url, json=BODY)
    if not answer.is_success:
        raise RuntimeError(f"HTTP {answer.status_code}: {answer.text}")


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _count_recorded(server: Server, answered: int) -> dict[str, float]:
    """Each call that was answered has to be in the log."""
    with _store_of(server) as store:
        recorded = sum(1 for _ in store.read(types=["ModelCalled"]))
    return {"calls answered through the proxy": answered, "calls that are not in the log": answered - recorded}


if __name__ == "__main__":
    typer.run(main)
