"""Frames by partition on a Ray cluster of two nodes: made on both, merged to the digest that one process makes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from eventlog.archive.drop import drop
from eventlog.archive.errors import SegmentDamaged
from eventlog.archive.write import archive
from eventlog.postgres import PostgresStore
from eventlog.store import Position
from projections.errors import EngineUnusable
from projections.frames.engines import on_ray
from projections.frames.frame import digest_part
from projections.frames.framing import make_parts, parts_by_row
from projections.frames.outcomes import FRAMES
from tests.golden.test_golden_samples import golden_rows

pytestmark = [
    # Ray leaves sockets to the collector, and warns of what its next release will change.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.timeout(180),
]

END = len(golden_rows())
BORDER = 600
MEMORY = 80 * 1024 * 1024


def processes_of(session: str) -> list[int]:
    """Who still works for a cluster: it is known by the folder of its session."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and session.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one processor each on this machine. Nothing of them is left."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_metrics_report_interval_ms": "0",
        }.items():
            patch.setenv(name, value)
        pytest.importorskip("ray", reason="ray is an extra")
        from ray.cluster_utils import Cluster  # noqa: PLC0415

        found: Any = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "include_dashboard": False, "object_store_memory": MEMORY},
        )
        try:
            found.add_node(num_cpus=1, object_store_memory=MEMORY)
            found.wait_for_nodes()
            yield found
        finally:
            session = Path(found.head_node.get_session_dir_path()).name
            found.shutdown()
            until = time.monotonic() + 20
            while (left := processes_of(session)) and time.monotonic() < until:
                time.sleep(0.1)
    assert left == []


@pytest.fixture(scope="module")
def connected(cluster: Any) -> Iterator[Any]:
    """Ray, connected to the cluster, with a process awake on each node."""
    import ray  # noqa: PLC0415

    ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
    try:
        places: set[str] = set()
        until = time.monotonic() + 60
        while len(places) < 2:
            assert time.monotonic() < until, "the second node does not answer"
            places |= {place for _, place, _ in on_ray()(time.sleep, [0.2] * 4)}
        yield ray
    finally:
        ray.shutdown()


def test_an_engine_that_is_told_an_address_connects_and_leaves(cluster: Any) -> None:
    import ray  # noqa: PLC0415

    answers = sorted((index, answer) for index, _, answer in on_ray(cluster.address)(abs, [-3, 4, -5]))
    assert answers == [(0, 3), (1, 4), (2, 5)]
    assert not ray.is_initialized()
    assert list(on_ray("nowhere:1")(abs, [])) == []


def test_two_nodes_rebuild_frames_of_the_archive_by_partition(
    connected: Any, engine: Engine, owner_engine: Engine, tmp_path: Path
) -> None:
    live = [digest_part(part) for part in parts_by_row(engine, PostgresStore(engine), FRAMES, 0, END)]
    archive(owner_engine, tmp_path, Position(BORDER), size=40)
    drop(owner_engine, tmp_path, Position(BORDER))
    store = PostgresStore(engine, archive=tmp_path)
    told: list[int] = []
    made = make_parts(engine, store, FRAMES, 0, END, over=on_ray(), progress=told.append)
    assert [digest_part(part) for part in made.parts] == live
    assert set(made.places) == {f"node {node['NodeID']}" for node in connected.nodes()}
    assert (len(made.places), sum(made.places.values()), told[-1]) == (2, 15, END)
    here = make_parts(engine, store, FRAMES, 0, END)
    assert [digest_part(part) for part in here.parts] == live


def test_an_error_of_a_node_is_the_error_that_one_process_raises(
    connected: Any, engine: Engine, owner_engine: Engine, tmp_path: Path
) -> None:
    archive(owner_engine, tmp_path, Position(BORDER), size=200)
    drop(owner_engine, tmp_path, Position(BORDER))
    (tmp_path / "default" / "201-400" / "runs.parquet").write_bytes(b"PAR1")
    with pytest.raises(SegmentDamaged, match="201-400"):
        make_parts(engine, PostgresStore(engine, archive=tmp_path), FRAMES, 0, END, over=on_ray())


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere.invalid:6379", "nowhere", "host:port"])
def test_a_cluster_that_is_not_there_is_said_to_be_none(address: str) -> None:
    pytest.importorskip("ray", reason="ray is an extra")
    with pytest.raises(EngineUnusable, match="Frames cannot be made on ray"):
        list(on_ray(address)(abs, [-3]))
