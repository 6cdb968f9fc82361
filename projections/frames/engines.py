"""Engines that map a function over values: in this process, in worker processes, or on a Ray cluster."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from eventlog.verification import ignore_interrupts

from ..errors import EngineUnusable

_PATIENCE_S = 5.0

T = TypeVar("T")
R = TypeVar("R")

_AHEAD = 2
"""Tasks in flight for each CPU of a cluster; more would only accumulate results."""


class MapOver(Protocol):
    """Maps a pure function over picklable values, and yields `(index, place, result)` for each, in any order.

    Errors of the function are raised unchanged. `place` names the process or machine that computed the result.
    """

    def __call__(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, str, R]]:
        """Results as they become available."""
        ...


def here(function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, str, R]]:
    """Map one value after the other in this process."""
    for index, item in enumerate(items):
        yield index, "here", function(item)


def on_processes(workers: int) -> MapOver:
    """An engine of worker processes on this machine, which end with the last result."""

    def over(function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, str, R]]:
        if not items:
            return
        # Spawned: forking a process with threads, such as Polars', can deadlock.
        processes = min(workers, len(items))
        with ProcessPoolExecutor(processes, get_context("spawn"), initializer=ignore_interrupts) as pool:
            waiting = {pool.submit(_call_with_place, function, item): index for index, item in enumerate(items)}
            try:
                for future in as_completed(waiting):
                    place, answer = future.result()
                    yield waiting.pop(future), place, answer
            except BrokenProcessPool as error:
                raise EngineUnusable(
                    engine="processes", actual="one of them died", expected="enough memory for all workers; use fewer"
                ) from error
            finally:
                pool.shutdown(cancel_futures=True)

    return over


def _call_with_place(function: Callable[[T], R], item: T) -> tuple[str, R]:
    return f"process {os.getpid()}", function(item)


def on_ray(address: str | None = None) -> MapOver:
    """An engine on the nodes of a Ray cluster, one CPU for each value; without an address, on a temporary local one.

    Each node needs the same flywheel, and the archive at the same path. The engine raises EngineUnusable on first use.
    """

    def over(function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, str, R]]:
        if not items:
            return
        with _connect_to_cluster(address) as ray:
            yield from _over_nodes(ray, function, items)

    return over


@contextmanager
def _connect_to_cluster(address: str | None) -> Iterator[Any]:
    try:
        import ray  # noqa: PLC0415 an extra
    except ImportError as error:
        raise EngineUnusable(
            engine="ray", actual=str(error), expected="the extra: pip install 'flywheel[ray]'"
        ) from error
    if address is not None:
        _look_for(address)
    was_connected = ray.is_initialized()
    if not was_connected:
        try:
            own: dict[str, Any] = {"include_dashboard": False} if address is None else {}
            ray.init(address=address or "local", log_to_driver=False, configure_logging=False, **own)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise EngineUnusable(engine="ray", actual=first, expected="a cluster at that address") from error
    try:
        yield ray
    finally:
        if not was_connected:
            ray.shutdown()


def _look_for(address: str) -> None:
    """Raise EngineUnusable unless the address accepts connections: Ray itself would retry for minutes."""
    try:
        place = urlsplit(address if "://" in address else f"//{address}")
        if place.hostname is None or place.port is None:
            raise EngineUnusable(engine="ray", actual=f"its address is {address!r}", expected="HOST:PORT")
        socket.create_connection((place.hostname, place.port), _PATIENCE_S).close()
    except ValueError as error:
        raise EngineUnusable(engine="ray", actual=f"its address is {address!r}", expected="HOST:PORT") from error
    except OSError as error:
        actual = f"{address} does not answer ({error.strerror or error})"
        raise EngineUnusable(engine="ray", actual=actual, expected="the head of a cluster") from error


def _over_nodes(ray: Any, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, str, R]]:
    """Map values over the nodes, with few tasks in flight to bound memory. Ray repeats the tasks of a dead node."""

    def on_node(item: T) -> tuple[str, R]:
        return f"node {ray.get_runtime_context().get_node_id()}", function(item)

    task = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(on_node)
    most = max(1, _AHEAD * int(ray.cluster_resources().get("CPU", 1)))
    todo = iter(enumerate(items))
    waiting: dict[Any, int] = {}
    while True:
        while len(waiting) < most and (following := next(todo, None)) is not None:
            waiting[task.remote(following[1])] = following[0]
        if not waiting:
            return
        (ready, *_), _ = ray.wait(list(waiting), num_returns=1)
        try:
            place, answer = ray.get(ready)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except ray.exceptions.RayError as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise EngineUnusable(engine="ray", actual=first, expected="nodes that stay available") from error
        yield waiting.pop(ready), place, answer
