"""A subject erased: its bytes are gone, the log verifies, what needs them answers erased, what saw them is listed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi.testclient import TestClient

from api.datasets.kept_files import dataset_folder
from api.house import House, open_house
from api.routes.rows import NDJSON
from api.settings import read_settings
from eventlog.blobs import Blob, BlobStore, PostgresBlobs
from eventlog.chain import canonical
from eventlog.errors import BlobErased, SubjectGone
from eventlog.events import AnyEvent, SubjectErased
from eventlog.postgres import PostgresStore
from eventlog.store import Append, Outcome
from projections.taint import erasures

from .test_cli import Flywheel, flywheel, shown
from .test_rest_samples import PAGES, PLAN, SampleRun

__all__ = ["flywheel"]

ERASE = ("erase", "--subject", "ann", "--reason", "asked for it")


@pytest.fixture(autouse=True)
def subjects(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keys in a home of this test's own."""
    monkeypatch.setenv("FLYWHEEL_HOME", str(tmp_path / "home"))


@pytest.fixture
def house(flywheel: Flywheel) -> Iterator[House]:
    """The house that the commands open, on the golden log."""
    opened = open_house(read_settings())
    yield opened
    opened.close()


def blobs_of(house: House) -> BlobStore:
    return cast("BlobStore", house.blobs)


def events_of(house: House, run: str, subject: str) -> tuple[AnyEvent, ...]:
    """The whole stream of a run with somebody's data, whose blobs are kept under the subject."""
    plan = Blob("application/json", canonical([step.model_dump(mode="json") for step in PLAN]))
    pages = tuple(Blob("text/plain; charset=utf-8", page.encode()) for page in PAGES)
    addresses = blobs_of(house).put([plan, *pages], subject=subject)
    sample = SampleRun(run, group=run, sweep="ext-s")
    text = json.dumps([event.model_dump(mode="json") for event in sample.events(plan, pages)])
    for blob, address in zip([plan, *pages], addresses, strict=True):
        text = text.replace(blob.digest, address)
    payloads = json.loads(text)
    payloads[0]["subject"] = subject
    kinds = sample.events(plan, pages)
    return tuple(
        type(kind).model_validate_json(json.dumps(payload)) for kind, payload in zip(kinds, payloads, strict=True)
    )


def record(house: House, run: str = "ext-1", subject: str = "ann") -> None:
    house.store.append([Append(f"run/{run}", events_of(house, run, subject), "test")])


def said_erased(house: House) -> list[SubjectErased]:
    return [item.event for item in house.store.read(types=["SubjectErased"]) if isinstance(item.event, SubjectErased)]


def test_what_had_seen_a_subject_is_listed_and_everything_that_needs_its_bytes_answers_erased(
    flywheel: Flywheel, house: House, tmp_path: Path
) -> None:
    old = shown(flywheel, "dataset", "list")[0]["dataset"]
    record(house)
    digest = shown(flywheel, "dataset", "build", "--outside", "all")["dataset"]
    assert digest != old
    assert shown(flywheel, "dataset", "verify", digest)["outcome"] == "equal"

    code, out, _ = flywheel(*ERASE, "--dry-run")
    assert (code, digest in out, "ext-1" in out, "Nothing was changed" in out) == (0, True, True, True)
    assert shown(flywheel, "dataset", "verify", digest)["outcome"] == "equal"
    found = shown(flywheel, *ERASE, "--yes")
    assert (found["blobs"], found["runs"], found["was_erased"]) == (3, ["ext-1"], False)
    assert (found["tainted"]["runs"], found["tainted"]["datasets"]) == (["ext-1"], [digest])

    code, out, err = flywheel("dataset", "verify", digest)
    assert (code, out) == (1, "")
    assert f"The dataset {digest} is erased" in err
    code, out, err = flywheel("dataset", "verify", digest, "--json")
    answer = json.loads(out)
    assert (code, answer["dataset"], answer["outcome"]) == (1, digest, "erased")
    assert flywheel("dataset", "export", digest, str(tmp_path / "rows.parquet"))[0] == 1
    assert list(tmp_path.glob("rows*")) == []
    assert flywheel("log", "verify")[0] == 0
    assert flywheel("replay", "--verify")[0] == 0
    assert [row["outcome"] for row in shown(flywheel, "gate", "verify", "--all")] == ["equal"]
    assert shown(flywheel, "dataset", "verify", old)["outcome"] == "equal"


def test_later_datasets_leave_erased_runs_out(flywheel: Flywheel, house: House) -> None:
    before = shown(flywheel, "dataset", "list")[0]["dataset"]
    record(house)
    since = shown(flywheel, *ERASE)["since"]
    built = shown(flywheel, "dataset", "build", "--outside", "all")
    assert (built["dataset"], built["refused"]["erased"]) == (before, 1)
    assert shown(flywheel, "runs", "show", "ext-1")["erased"] == since
    marked = {row["run"] for row in shown(flywheel, "runs", "list", "--limit", "1000") if row["erased"]}
    assert marked == {"ext-1"}
    out = flywheel("runs", "show", "ext-1")[1]
    assert f"since position {since}: asked for it" in out


def test_erasing_removes_the_kept_files_of_rows(flywheel: Flywheel, house: House) -> None:
    dataset_folder(house).mkdir(parents=True)
    (dataset_folder(house) / "rows.arrow").write_bytes(b"rows")
    flywheel(*ERASE, "--yes")
    assert not dataset_folder(house).exists()


def test_erasing_twice_is_harmless_and_the_first_reason_stands(flywheel: Flywheel, house: House) -> None:
    record(house)
    first = shown(flywheel, *ERASE)
    again = shown(flywheel, "erase", "--subject", "ann", "--reason", "another")
    assert (again["since"], again["was_erased"], again["runs"]) == (first["since"], True, ["ext-1"])
    assert [event.reason for event in said_erased(house)] == ["asked for it"]
    code, out, _ = flywheel(*ERASE)
    assert code == 0
    assert f"'ann' was erased before, at position {first['since']}" in out


def test_a_process_killed_before_it_could_say_so_says_so_when_it_is_run_again(
    flywheel: Flywheel, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(house)
    digest = shown(flywheel, "dataset", "build", "--outside", "all")["dataset"]
    whole = PostgresStore.append

    def killed(_store: PostgresStore, _requests: Sequence[Append]) -> Sequence[Outcome]:
        raise KeyboardInterrupt

    monkeypatch.setattr(PostgresStore, "append", killed)
    assert flywheel(*ERASE)[0] == 130
    monkeypatch.setattr(PostgresStore, "append", whole)
    assert said_erased(house) == []
    assert json.loads(flywheel("dataset", "verify", digest, "--json")[1])["outcome"] == "erased"
    assert flywheel("dataset", "build", "--outside", "all")[0] == 1
    assert shown(flywheel, *ERASE)["tainted"]["datasets"] == [digest]
    assert len(said_erased(house)) == 1
    assert flywheel("dataset", "build", "--outside", "all")[0] == 0


def test_nobody_is_erased_without_harm(flywheel: Flywheel, house: House) -> None:
    digest = shown(flywheel, "dataset", "list")[0]["dataset"]
    record(house)
    code, out, _ = flywheel("erase", "--subject", "nobody", "--reason", "a slip", "--yes")
    assert code == 0
    assert "No run in the log names the subject 'nobody'" in out
    assert "0 blobs destroyed" in out
    assert shown(flywheel, "dataset", "verify", digest)["outcome"] == "equal"
    assert shown(flywheel, "runs", "show", "ext-1")["erased"] is None
    assert set(erasures(house.views())) == {"nobody"}


def test_off_a_terminal_a_subject_that_nothing_names_is_erased_only_on_purpose(
    flywheel: Flywheel, house: House
) -> None:
    record(house)
    words = ("erase", "--subject", "anne", "--reason", "a slip")
    code, _, err = flywheel(*words)
    assert (code, "'anne'" in err, "--yes" in err) == (1, True, True)
    assert said_erased(house) == []
    assert flywheel(*words, "--dry-run")[0] == 0
    blobs_of(house).put([Blob("text/plain", b"of anne")], subject="anne")
    assert shown(flywheel, *words)["blobs"] == 1
    assert shown(flywheel, *words)["was_erased"]


def test_another_subject_with_the_same_bytes_keeps_them(flywheel: Flywheel, house: House) -> None:
    record(house, "ext-1", "ann")
    record(house, "ext-2", "bob")
    assert shown(flywheel, *ERASE)["blobs"] == 3
    built = shown(flywheel, "dataset", "build", "--outside", "all")
    assert shown(flywheel, "dataset", "verify", built["dataset"])["outcome"] == "equal"
    assert built["refused"]["erased"] == 1
    with pytest.raises(SubjectGone):
        blobs_of(house).put([Blob("text/plain", b"more of ann")], subject="ann")


WRONG: list[tuple[tuple[str, ...], int, str]] = [
    (("--subject", "", "--reason", "x"), 1, "subject is ''"),
    (("--subject", "x" * 201, "--reason", "x"), 1, "at most 200"),
    (("--subject", "\udcff", "--reason", "x"), 1, "lone surrogate"),
    (("--subject", "ann", "--reason", " "), 1, "No reason was given"),
    (("--subject", "ann", "--reason", "x" * 201), 1, "reason is"),
    (("--subject", "ann"), 64, "--reason"),
    (("--reason", "x"), 64, "--subject"),
]


@pytest.mark.parametrize(("words", "code", "said"), WRONG, ids=[said for _, _, said in WRONG])
def test_a_wrong_subject_or_reason_is_one_sentence_and_nothing_is_destroyed(
    words: tuple[str, ...], code: int, said: str, flywheel: Flywheel, house: House
) -> None:
    record(house)
    digest = shown(flywheel, "dataset", "build", "--outside", "all")["dataset"]
    found, _, err = flywheel("erase", *words)
    assert (found, said in err) == (code, True), err
    assert said_erased(house) == []
    assert shown(flywheel, "dataset", "verify", digest)["outcome"] == "equal"


def test_an_operator_who_says_no_destroys_nothing(
    flywheel: Flywheel, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(house)
    monkeypatch.setattr("api.cli.output.ERR._force_terminal", True)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    assert flywheel(*ERASE)[0] == 1
    assert said_erased(house) == []
    assert flywheel("dataset", "build", "--outside", "all")[0] == 0


def test_rows_of_an_erased_dataset_are_410_over_rest_also_for_one_who_knows_them(
    flywheel: Flywheel, client: TestClient, house: House
) -> None:
    record(house)
    digest = shown(flywheel, "dataset", "build", "--outside", "all")["dataset"]
    assert client.get(f"/v1/datasets/{digest}/rows").status_code == 200
    known = {"If-None-Match": f'"{digest}"'}
    assert client.get(f"/v1/datasets/{digest}/rows", headers=known).status_code == 304
    before = house.store.head()
    since = shown(flywheel, *ERASE)["since"]
    for headers in ({}, known, {"Accept": NDJSON}):
        for as_of in (since, before):
            answer = client.get(f"/v1/datasets/{digest}/rows", headers=headers, params={"as_of": as_of})
            error: dict[str, Any] = answer.json()["error"]
            assert (answer.status_code, error["type"], error["facts"]["expected"]) == (410, "DatasetErased", digest)
    assert client.get(f"/v1/datasets/{digest}").status_code == 200
    old = shown(flywheel, "dataset", "list")
    others = [row["dataset"] for row in old if row["dataset"] != digest]
    for other in others:
        tag = {"If-None-Match": f'"{other}"'}
        assert client.get(f"/v1/datasets/{other}/rows", headers=tag).status_code == 304
    assert others


def test_runs_of_a_subject_are_recorded_and_their_taint_read_over_rest(
    flywheel: Flywheel, client: TestClient, house: House
) -> None:
    events = [event.model_dump(mode="json") for event in events_of(house, "ext-1", "ann")]
    answer = client.post("/v1/events", json={"stream": "run/ext-1", "events": events})
    assert answer.status_code == 201, answer.text
    first = client.get("/v1/runs/ext-1").json()["events"][0]["event"]
    assert first["subject"] == "ann"
    digest = shown(flywheel, "dataset", "build", "--outside", "all")["dataset"]
    found = client.get("/v1/taint", params={"subject": "ann"}).json()["tainted"]
    assert (found["runs"], found["datasets"]) == (["ext-1"], [digest])
    since = shown(flywheel, *ERASE)["since"]
    listed = client.get("/v1/taint/erasures").json()["erasures"]
    assert listed == [{"since": since, "reason": "asked for it", "subject": "ann"}]
    assert client.get("/v1/runs/ext-1").json()["run"]["erased"] == since
    assert client.get("/v1/taint", params={"subject": "ann"}).json()["tainted"]["datasets"] == [digest]


def test_an_artifact_whose_memory_was_erased_says_so(flywheel: Flywheel, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_store: PostgresBlobs, address: str) -> Blob:
        raise BlobErased(actual=address)

    monkeypatch.setattr(PostgresBlobs, "get", gone)
    code, out, _ = flywheel("artifact", "show", "base@0", "--json")
    assert (code, json.loads(out)["outcome"]) == (1, "erased")
    code, _, err = flywheel("artifact", "show", "base@0")
    assert (code, "erased" in err) == (1, True)
