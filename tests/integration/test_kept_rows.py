"""Rows of datasets in Parquet and in parts, and the files in which they are kept."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from fastapi.testclient import TestClient
from polars.testing import assert_frame_equal
from starlette.requests import ClientDisconnect

from api.app import create_app
from api.datasets.freeze import build_dataset, freeze_dataset
from api.datasets.kept_files import (
    dataset_folder,
    drop_kept_files,
    has_subject,
    keep_file,
    kept_file,
    kept_name,
    kept_rows,
)
from api.house import House
from api.routes.rows import ARROW, NDJSON, PARQUET, RowsWanted, encode_rows, send_kept_file
from api.tokens import issue
from eventlog.events import SftQuery, SubjectErased

from .test_erasing import record as record_person
from .test_rest_samples import SampleRun, append, planned, record, template

LZ4 = f"{ARROW};codec=lz4"


@pytest.fixture
def house(empty_house: House, tmp_path: Path) -> House:
    """A house that keeps files."""
    settings = empty_house.settings.model_copy(update={"home": tmp_path, "dataset_bytes": 2**20})
    return replace(empty_house, settings=settings)


@pytest.fixture
def client(house: House) -> Iterator[TestClient]:
    headers = {"Authorization": f"Bearer {issue(house.store, 'reader', 'test', 'read')}"}
    with TestClient(create_app(house), headers=headers) as found:
        yield found


@pytest.fixture
def digest(house: House) -> str:
    append(house.store, "sweep/s1", planned(template()))
    record(house.store, house.blobs, SampleRun("r1"), SampleRun("r2", group="g2"))
    return freeze_dataset(house.store, build_dataset(house.store, house.blobs, house.views(), SftQuery()), "test")


def read(media: str, body: bytes) -> pl.DataFrame:
    if media == PARQUET:
        return pl.read_parquet(BytesIO(body))
    return pl.read_ndjson(BytesIO(body)) if media == NDJSON else pl.read_ipc_stream(BytesIO(body))


def test_every_form_holds_the_same_rows_has_an_etag_of_its_own_and_is_kept(
    client: TestClient, house: House, digest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = build_dataset(house.store, house.blobs, house.views(), SftQuery()).rows
    sent = {}
    for media in (ARROW, LZ4, PARQUET, NDJSON):
        answer = client.get(f"/v1/datasets/{digest}/rows", headers={"Accept": media})
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, media.partition(";")[0])
        found = read(media, answer.content)
        assert_frame_equal(
            found.select(rows.columns) if media != NDJSON else found.select("run"),
            rows if media != NDJSON else rows.select("run"),
        )
        sent[media] = (answer.headers["ETag"], answer.content)
    assert len({tag for tag, _ in sent.values()}) == 4
    assert len(list(dataset_folder(house).iterdir())) == 4

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("the rows were built again")

    monkeypatch.setattr("api.routes.datasets.load", fail)
    for media, (tag, body) in sent.items():
        answer = client.get(f"/v1/datasets/{digest}/rows", headers={"Accept": media})
        assert (answer.headers["ETag"], answer.content) == (tag, body)


@pytest.mark.parametrize("kept", [ARROW, LZ4])
def test_rows_that_are_kept_are_sent_in_another_form_without_building_them_again(
    client: TestClient, house: House, digest: str, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    path, built = f"/v1/datasets/{digest}/rows", {}
    for media in (ARROW, LZ4, PARQUET, NDJSON):
        built[media] = client.get(path, headers={"Accept": media}).content
        drop_kept_files(house)
    client.get(path, headers={"Accept": kept})
    monkeypatch.setattr("api.routes.datasets.load", lambda *_, **__: pytest.fail("the rows were built again"))
    for media, body in built.items():
        assert client.get(path, headers={"Accept": media}).content == body, media


def test_rows_of_many_batches_have_the_same_bytes_once_they_are_read_from_a_kept_file(house: House) -> None:
    views = house.views()
    frame = pl.concat([pl.DataFrame({"run": [f"r{n}"], "ids": [[n, n + 1]]}) for n in range(9)], rechunk=False)
    for number, suffix in enumerate(("arrow", "lz4.arrow")):
        keep_file(house, views, kept_name(views, f"{number:064}", suffix), frame, encode_rows(frame, suffix))
        found = kept_rows(house, views, f"{number:064}")
        assert found is not None
        for other in ("arrow", "lz4.arrow", "parquet", "ndjson"):
            assert bytes(encode_rows(found, other)) == bytes(encode_rows(frame, other)), (suffix, other)
    assert kept_rows(house, views, "f" * 64) is None


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_part_is_sent_where_a_range_asks_for_one(client: TestClient, digest: str, is_kept: bool) -> None:
    path = f"/v1/datasets/{digest}/rows"

    def ask(**headers: str) -> Any:
        if not is_kept:
            for file in dataset_folder(client.app.state.house).glob("*"):  # type: ignore[attr-defined]
                file.unlink()
        return client.get(path, headers={"Accept": PARQUET, **headers})

    whole = ask()
    size, tag = len(whole.content), whole.headers["ETag"]
    part = ask(Range="bytes=4-9")
    assert (part.status_code, part.content, part.headers["Content-Length"]) == (206, whole.content[4:10], "6")
    assert part.headers["Content-Range"] == f"bytes 4-9/{size}"
    assert ask(Range="bytes=-4").content == b"PAR1"
    beyond = ask(Range=f"bytes={size}-")
    assert (beyond.status_code, beyond.headers["Content-Range"]) == (416, f"bytes */{size}")
    assert beyond.json()["error"]["type"] == "BeyondRows"
    assert ask(Range="bytes=4-9", **{"If-Range": tag}).status_code == 206
    assert ask(Range="bytes=4-9", **{"If-Range": '"other"'}).content == whole.content


def test_a_kept_file_that_is_removed_meanwhile_is_built_again(
    client: TestClient, house: House, digest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/v1/datasets/{digest}/rows"
    body = client.get(path).content
    (file,) = dataset_folder(house).iterdir()
    is_file = Path.is_file

    def find_and_remove(found: Path, **more: Any) -> bool:
        there = is_file(found, **more)
        file.unlink(missing_ok=True)
        return there

    with monkeypatch.context() as patch:
        patch.setattr(Path, "is_file", find_and_remove)
        patch.setattr(os, "utime", lambda *_: file.unlink(missing_ok=True))
        assert client.get(path).content == body
    assert client.get(path).content == body


def test_a_file_is_closed_whatever_becomes_of_its_answer(client: TestClient, house: House, digest: str) -> None:
    client.get(f"/v1/datasets/{digest}/rows")
    (file,) = dataset_folder(house).iterdir()
    opened = kept_file(house, file.name)
    assert opened is not None
    wanted = RowsWanted.__new__(RowsWanted)
    wanted.range = wanted.if_range = None

    async def leave(*_: Any) -> Any:
        raise OSError("the client is gone")

    scope = {"type": "http", "asgi": {"spec_version": "2.4"}}
    with pytest.raises(ClientDisconnect):
        asyncio.run(send_kept_file(opened, {"ETag": "x"}, wanted)(scope, leave, leave))
    assert opened.closed


@pytest.mark.parametrize("version", ["1.35.0-beta.1", "1.30.0+local_2"])
def test_rows_of_any_version_of_polars_are_kept(
    client: TestClient, house: House, digest: str, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(pl, "__version__", version)
    client.get(f"/v1/datasets/{digest}/rows")
    (file,) = dataset_folder(house).iterdir()
    kept = kept_file(house, file.name)
    assert kept is not None
    kept.close()


def test_what_was_not_used_for_longest_makes_room(client: TestClient, house: House, digest: str) -> None:
    path, folder = f"/v1/datasets/{digest}/rows", dataset_folder(house)
    for media in (ARROW, PARQUET):
        client.get(path, headers={"Accept": media})
    sizes = {file: file.stat().st_size for file in folder.iterdir()}
    arrow = next(file for file in sizes if file.suffix == ".arrow")
    parquet = next(file for file in sizes if file.suffix == ".parquet")
    os.utime(arrow, (1, 1))
    os.utime(parquet, (2, 2))
    (abandoned := folder / "x.part").write_bytes(b"")
    os.utime(abandoned, (1, 1))
    client.get(path, headers={"Accept": ARROW})  # used now
    bound = house.settings.model_copy(update={"dataset_bytes": sizes[arrow] + sizes[parquet]})
    client.app.state.house = replace(house, settings=bound)  # type: ignore[attr-defined]
    client.get(path, headers={"Accept": NDJSON})
    assert {file.suffix for file in folder.iterdir()} == {".arrow", ".ndjson"}
    few = house.settings.model_copy(update={"dataset_bytes": 10})
    client.app.state.house = replace(house, settings=few)  # type: ignore[attr-defined]
    assert client.get(path, headers={"Accept": LZ4}).status_code == 200
    assert {file.suffix for file in folder.iterdir()} == {".arrow", ".ndjson"}


def test_rows_of_a_run_with_a_subject_are_not_kept(client: TestClient, house: House) -> None:
    record_person(house)
    built = build_dataset(house.store, house.blobs, house.views(), SftQuery())
    assert has_subject(house.views(), built.rows)
    digest = freeze_dataset(house.store, built, "test")
    assert client.get(f"/v1/datasets/{digest}/rows").status_code == 200
    assert not dataset_folder(house).exists()


def test_no_file_from_before_an_erasure_is_served(client: TestClient, house: House, digest: str) -> None:
    path = f"/v1/datasets/{digest}/rows"
    body = client.get(path).content
    (before,) = dataset_folder(house).iterdir()
    before.write_bytes(b"rows that an erasure changed")
    append(house.store, "erasures", SubjectErased(subject="ann", reason="asked for it"))
    assert client.get(path).content == body
    assert len(list(dataset_folder(house).iterdir())) == 2
    drop_kept_files(house)
    assert not dataset_folder(house).exists()
    assert client.get(path).content == body
    assert len(list(dataset_folder(house).iterdir())) == 1
