"""Blobs over HTTP: put, then named by an event; erased is not missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from api.house import House, owned_blobs
from api.routes import blobs as routes
from eventlog.blobs import Blob

PAGE = b"<script>alert(1)</script>\x00\xff"


@pytest.fixture
def house(empty_house: House) -> House:
    """A house on an empty log."""
    return empty_house


def put(client: TestClient, body: bytes, **headers: str) -> str:
    answer = client.post("/v1/blobs", content=body, headers=headers)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["address"])


def test_bytes_come_back_as_they_were_put(client: TestClient, house: House) -> None:
    address = put(client, PAGE, **{"Content-Type": "text/html; charset=utf-8"})
    assert address == Blob("", PAGE).digest
    answer = client.get(f"/v1/blobs/{address}")
    assert (answer.status_code, answer.content) == (200, PAGE)
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert house.blobs.get(address).media_type == "text/html; charset=utf-8"
    assert put(client, PAGE) == address


def test_what_was_put_cannot_run_in_a_browser_and_is_not_cached(client: TestClient) -> None:
    headers = client.get(f"/v1/blobs/{put(client, PAGE, **{'Content-Type': 'text/html'})}").headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"].startswith("sandbox")
    assert headers["Cache-Control"] == "no-store"


def test_bytes_without_a_type_and_no_bytes_are_taken(client: TestClient) -> None:
    address = put(client, b"")
    answer = client.get(f"/v1/blobs/{address}")
    assert (answer.content, answer.headers["Content-Type"]) == (b"", "application/octet-stream")


def test_a_subjects_bytes_are_gone_with_the_subject(client: TestClient, house: House) -> None:
    mine = put(client, PAGE, **{"X-Blob-Subject": "person-1"})
    theirs = put(client, PAGE, **{"X-Blob-Subject": "person-2"})
    assert len({mine, theirs, put(client, PAGE)}) == 3
    with owned_blobs(house.settings) as blobs:
        assert blobs.erase("person-1") == 1
    erased = client.get(f"/v1/blobs/{mine}")
    assert (erased.status_code, erased.json()["error"]["type"]) == (410, "BlobErased")
    assert erased.json()["error"]["facts"] == {"actual": mine}
    refused = client.post("/v1/blobs", content=b"more", headers={"X-Blob-Subject": "person-1"})
    assert (refused.status_code, refused.json()["error"]["type"]) == (410, "SubjectGone")
    assert client.get(f"/v1/blobs/{theirs}").content == PAGE


def test_what_was_never_put_is_404_and_what_is_no_address_422(client: TestClient) -> None:
    unknown = client.get(f"/v1/blobs/{'0' * 64}")
    assert (unknown.status_code, unknown.json()["error"]["type"]) == (404, "BlobMissing")
    for path in ("x", "0" * 63, "A" * 64):
        assert client.get(f"/v1/blobs/{path}").status_code == 422


@pytest.mark.parametrize("size", [1001, 5000])
@pytest.mark.parametrize("is_announced", [True, False])
def test_too_much_is_413_and_nothing_is_kept(
    client: TestClient, house: House, monkeypatch: pytest.MonkeyPatch, size: int, is_announced: bool
) -> None:
    monkeypatch.setattr(routes, "MOST_BYTES", 1000)

    def parts() -> Iterator[bytes]:
        for start in range(0, size, 100):
            yield b"x" * min(100, size - start)

    answer = client.post("/v1/blobs", content=b"x" * size if is_announced else parts())
    assert (answer.status_code, answer.json()["error"]["type"]) == (413, "BlobTooLarge")
    assert answer.json()["error"]["facts"]["expected"] == 1000
    assert house.blobs.digests() == frozenset()
    assert put(client, b"x" * 1000) == Blob("", b"x" * 1000).digest


@pytest.mark.parametrize(
    "headers", [{"X-Blob-Subject": ""}, {"X-Blob-Subject": "two words"}, {"X-Blob-Subject": "x" * 201}], ids=str
)
def test_a_subject_that_is_none_is_refused(client: TestClient, house: House, headers: dict[str, str]) -> None:
    assert client.post("/v1/blobs", content=b"x", headers=headers).status_code == 422
    assert house.blobs.digests() == frozenset()


@pytest.mark.parametrize("media_type", ["text/" + "x" * 300, "text/\u00fc"])
def test_a_media_type_that_is_none_is_refused(client: TestClient, media_type: str) -> None:
    answer = client.post("/v1/blobs", content=b"x", headers=[(b"Content-Type", media_type.encode())])
    assert answer.status_code == 422
