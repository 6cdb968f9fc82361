"""Traces sent to each server in turns, the clock stopped once all can be read; then each is killed at half."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from benchmarks.log.server import Server
from benchmarks.report import Target, at_least

from .processes import NotReadyError, only
from .services import ENVIRONMENT, MISSING, TraceService, open_flywheel, open_mlflow, open_phoenix
from .traces import BATCH, SPANS, SentTraces

OURS = "flywheel"
PEERS: Mapping[str, Callable[[Server, Path], TraceService]] = {"MLflow": open_mlflow, "Phoenix": open_phoenix}
RATIO = "spans/s until readable, flywheel / the faster peer"
OWN_TIME = "processor time of a span, the cheaper peer / flywheel"
LOST = "flywheel, killed at half: acknowledged traces that are not there"
TARGETS: dict[str, Target] = {RATIO: at_least(5), LOST: Target(0, is_ceiling=True)}

_MEDIA = {"Content-Type": "application/x-protobuf"}
_PATIENCE_S = 600.0
_SETTLE_S = 15.0
"""How long a server that was killed may take, once it is up again, to show what it has."""

_LOOK_S = 0.2


@dataclass
class Rates:
    """What each server took in each repeat."""

    acknowledged_s: list[float] = field(default_factory=list)
    readable_s: list[float] = field(default_factory=list)
    own_s: list[float] = field(default_factory=list)

    def figures(self, name: str, spans: int) -> dict[str, float]:
        """The medians of a server."""
        return {
            f"{name}, spans/s until acknowledged": spans / statistics.median(self.acknowledged_s),
            f"{name}, spans/s until readable": spans / statistics.median(self.readable_s),
            f"{name}, its own processor ms of a span": 1000 * statistics.median(self.own_s) / spans,
        }


def measure_ingest(server: Server, folder: Path, amount: int, repeats: int) -> tuple[dict[str, float], dict[str, str]]:
    """Figures of all servers that could be started, and why others could not."""
    with ExitStack() as stack:
        services, left_out = _start(server, folder, stack)
        programs = [each.program for each in services.values()]
        rates = {name: Rates() for name in services}
        for name, service in services.items():
            with only(service.program, programs):
                _send(service, SentTraces(f"warm-{name}", "f0000000", BATCH), Rates())
        for number in range(repeats):
            for name, service in services.items():
                with only(service.program, programs):
                    _send(service, SentTraces(f"bench-{number}", f"a{number:03x}0000", amount), rates[name])
        spans = amount * SPANS
        found: dict[str, float] = {}
        for name, own in rates.items():
            found |= own.figures(name, spans)
        found |= _ratios(found, [name for name in services if name != OURS])
        for name, service in services.items():
            with only(service.program, programs):
                found |= _kill_at_half(name, service, amount)
    return found, left_out


def _start(server: Server, folder: Path, stack: ExitStack) -> tuple[dict[str, TraceService], dict[str, str]]:
    services: dict[str, TraceService] = {}
    left_out: dict[str, str] = {}
    opened = {OURS: open_flywheel, **PEERS}
    for name, open_service in opened.items():
        if name != OURS and not (ENVIRONMENT / ".ready").exists():
            left_out[name] = MISSING
            continue
        service = open_service(server, folder)
        try:
            service.program.start()
        except NotReadyError as problem:
            if name == OURS:
                raise
            left_out[name] = " ".join(str(problem).split())[-300:]
            continue
        stack.callback(service.program.stop)
        services[name] = service
    return services, left_out


def _ratios(found: Mapping[str, float], peers: Sequence[str]) -> dict[str, float]:
    if not peers:
        return {}
    faster = max(found[f"{name}, spans/s until readable"] for name in peers)
    cheaper = min(found[f"{name}, its own processor ms of a span"] for name in peers)
    return {
        RATIO: found[f"{OURS}, spans/s until readable"] / faster,
        OWN_TIME: cheaper / found[f"{OURS}, its own processor ms of a span"],
    }


def _send(service: TraceService, traces: SentTraces, rates: Rates) -> None:
    """Send all requests, one after the other, and wait until all spans can be read."""
    headers = {**service.prepare(traces), **_MEDIA}
    bodies = list(traces.bodies())
    with _client(service) as client:
        before, began = service.program.processor_seconds(), time.perf_counter()
        for body in bodies:
            client.post("/v1/traces", content=body, headers=headers).raise_for_status()
        rates.acknowledged_s.append(time.perf_counter() - began)
        _await_spans(service, client, traces, began + _PATIENCE_S)
        rates.readable_s.append(time.perf_counter() - began)
        rates.own_s.append(service.program.processor_seconds() - before)


def _await_spans(service: TraceService, client: httpx2.Client, traces: SentTraces, deadline: float) -> None:
    while (found := service.count(client, traces)) < traces.spans:
        if time.perf_counter() > deadline:
            raise TimeoutError(
                f"{service.program.words[0]} shows {found} of {traces.spans} spans after {_PATIENCE_S} s"
            )
        time.sleep(_LOOK_S)


def _kill_at_half(name: str, service: TraceService, amount: int) -> dict[str, float]:
    """Kill a server while the request after the half is on its way; count what was sent, acknowledged, and is there."""
    traces = SentTraces("killed", "eeee0000", amount)
    headers = {**service.prepare(traces), **_MEDIA}
    sent, acknowledged, half = [0], [0], threading.Event()

    def send() -> None:
        with _client(service) as client, suppress(httpx2.HTTPError):
            for body in traces.bodies():
                sent[0] += BATCH
                client.post("/v1/traces", content=body, headers=headers).raise_for_status()
                acknowledged[0] += BATCH
                if acknowledged[0] >= amount // 2:
                    half.set()

    sender = threading.Thread(target=send)
    sender.start()
    half.wait(_PATIENCE_S)
    service.program.kill()
    sender.join()
    service.program.start()
    present = _settled(service, traces)
    start = f"{name}, killed at half:"
    return {
        f"{start} traces sent": sent[0],
        f"{start} traces acknowledged": acknowledged[0],
        f"{start} traces there after a restart": present / SPANS,
        f"{start} acknowledged traces that are not there": max(0.0, acknowledged[0] - present / SPANS),
    }


def _settled(service: TraceService, traces: SentTraces) -> int:
    """The spans that can be read once their number has not changed for a while."""
    found, since = -1, time.monotonic()
    with _client(service) as client:
        while time.monotonic() - since < _SETTLE_S:
            now = service.count(client, traces)
            if now != found:
                found, since = now, time.monotonic()
            time.sleep(0.5)
    return found


def _client(service: TraceService) -> httpx2.Client:
    return httpx2.Client(base_url=service.program.url, timeout=_PATIENCE_S, trust_env=False)
