"""The Python client against a real server, and its wheel without the server's libraries."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx2
import polars as pl
import pytest

import flywheel_client
from api.datasets.freeze import build_dataset, freeze_dataset
from api.house import House
from api.tokens import issue
from eventlog.events import ChampionPointed, RunFinished, RunStarted, SftQuery, StepTaken
from flywheel_client.connection import Connection
from tests.golden.test_golden_samples import sample
from tests.served import served_app

from .test_rest_samples import BASE, SampleRun, append, planned, record, template

FOLDER = Path(__file__).parents[2] / "client"


@pytest.fixture
def house(empty_house: House) -> House:
    return empty_house


@pytest.fixture
def client(house: House) -> Iterator[flywheel_client.Client]:
    token = issue(house.store, "tester", "test", "operate")
    with served_app(house) as url, flywheel_client.connect(url, token) as found:
        yield found


def events_of(house: House, run: str) -> list[Any]:
    return [each.event for each in house.store.read(stream=f"run/{run}")]


def test_a_run_is_in_the_log_step_by_step_and_ends_with_its_reward(
    client: flywheel_client.Client, house: House
) -> None:
    with client.run("book a flight", group="ext-flights") as run:
        run.step("search", action="Search flights", argument={"to": "OSL"}, observation="3 flights")
        assert [type(each) for each in events_of(house, run.run)] == [RunStarted, StepTaken]
        run.step("choose", observation=b"\x00\x01")
        run.reward(0.25, passed=True)
    started, step, _, finished, graded = events_of(house, run.run)
    assert (started.spec.group_id, started.task_spec.instruction) == ("ext-flights", "book a flight")
    assert (step.action, step.intent, step.outcome) == ("search_flights", "search", "ok")
    assert house.blobs.get(step.argument).body == b'{"to": "OSL"}'
    assert house.blobs.get(step.observation).body == b"3 flights"
    assert (finished.status, finished.usage.actions) == ("completed", 2)
    assert (graded.score, graded.passed) == (250_000, True)
    (seen,) = client.runs(text="FLIGHT")
    assert (seen.run, seen.status, seen.steps) == (run.run, "completed", 2)
    assert seen.reward is not None
    assert (seen.reward.score, seen.reward.passed, seen.reward.cost) == (250_000, True, None)
    assert [each.type for each in client.run_events(run.run)][-1] == "RewardGraded"


def test_a_run_whose_block_raises_is_halted_and_the_error_goes_on(client: flywheel_client.Client, house: House) -> None:
    with pytest.raises(ZeroDivisionError), client.run("fail", run="mine") as run:
        run.step("divide", observation=str(1 / 0))
    assert [type(each) for each in events_of(house, "ext-mine")] == [RunStarted, RunFinished]
    assert [each.status for each in client.runs()] == ["halted"]
    client.reward("ext-mine", 0)
    assert [each.run for each in client.runs(passed=False)] == ["ext-mine"]
    with pytest.raises(flywheel_client.ApiError) as refused:
        client.reward("ext-mine", 1)
    assert (refused.value.status, refused.value.kind) == (409, "RewardReported")
    with pytest.raises(ValueError, match="0 to 1"):
        client.reward("ext-mine", 2)


def test_traced_functions_are_runs_and_those_they_call_are_steps(client: flywheel_client.Client, house: House) -> None:
    @client.trace
    def look(word: str) -> list[str]:
        return [word]

    @client.trace
    def fail() -> None:
        raise LookupError("no such word")

    @client.trace(task="answer questions")
    def answer(word: str, *, times: int = 1) -> str:
        look(word)
        return word * times

    assert answer("a", times=3) == "aaa"
    (seen,) = client.runs()
    assert seen.template == "answer questions"
    steps = [each for each in events_of(house, seen.run) if isinstance(each, StepTaken)]
    assert [step.action for step in steps] == ["look", "answer"]
    assert house.blobs.get(steps[1].argument or "").body == b'{"word": "a", "times": 3}'
    with pytest.raises(LookupError):
        fail()
    (failed,) = client.runs(status="halted")
    assert [each.outcome for each in events_of(house, failed.run) if isinstance(each, StepTaken)] == ["server_error"]


def test_coroutines_are_told_too(house: House) -> None:
    token = issue(house.store, "tester", "test")

    async def work(url: str) -> list[flywheel_client.Run]:
        async with flywheel_client.connect_async(url, token) as client:

            @client.trace
            async def look(word: str) -> str:
                await asyncio.sleep(0)
                return word

            async with client.run("ask", run="a") as run:
                await asyncio.gather(look("x"), look("y"), run.step("think"))
                run.reward(1)
            await look("alone")
            with pytest.raises(RuntimeError):
                async with client.run("fail", run="b"):
                    raise RuntimeError
            assert await client.champion() is None
            return await client.runs()

    with served_app(house) as url:
        found = asyncio.run(work(url))
    told = {run.run: (run.status, run.steps, run.reward is not None) for run in found}
    assert (told["ext-a"], told["ext-b"]) == (("completed", 3, True), ("halted", 0, False))
    assert [state for run, state in told.items() if run.startswith("ext-look-")] == [("completed", 1, False)]
    steps = [each.index for each in events_of(house, "ext-a") if isinstance(each, StepTaken)]
    assert steps == [0, 1, 2]


def test_rows_come_as_polars_and_arrow_and_say_how_far_they_are(client: flywheel_client.Client, house: House) -> None:
    pytest.importorskip("pyarrow")
    append(house.store, "sweep/s1", planned(template()))
    record(house.store, house.blobs, SampleRun("r1"), SampleRun("r2", group="g2"))
    digest = freeze_dataset(house.store, build_dataset(house.store, house.blobs, house.views(), SftQuery()), "test")
    (listed,) = client.datasets()
    assert (listed.dataset, listed.rows > 0) == (digest, True)
    seen: list[tuple[int, int]] = []
    frame = client.rows(digest[:8], progress=lambda done, total: seen.append((done, total))).polars()
    assert (frame.height, seen[-1][0]) == (listed.rows, seen[-1][1])
    table = pl.from_arrow(client.rows(digest).arrow())
    assert isinstance(table, pl.DataFrame)
    assert table.equals(frame)
    assert client.register_slice("g2", kind="sft").group == "g2"
    assert client.slice_rows("g2").polars().equals(frame.filter(pl.col("group") == "g2"))
    with pytest.raises(flywheel_client.ApiError, match="Unknown"):
        client.rows("0" * 64).polars()


def test_rows_come_as_a_dataset_of_hugging_face(client: flywheel_client.Client, house: House) -> None:
    pytest.importorskip("datasets")
    append(house.store, "sweep/s1", planned(template()))
    record(house.store, house.blobs, SampleRun("r1"))
    digest = freeze_dataset(house.store, build_dataset(house.store, house.blobs, house.views(), SftQuery()), "test")
    found = client.rows(digest, progress=True).huggingface()
    assert found.num_rows == len(client.rows(digest).polars())
    assert found[0]["run"] == "r1"


def test_champion_gate_and_memory_are_read_and_lists_go_on_over_pages(
    client: flywheel_client.Client, house: House
) -> None:
    assert client.champion() is None
    for reason in ("first", "second"):
        append(house.store, "champion", ChampionPointed(artifact=BASE, by="operator", reason=reason, evaluation=None))
    for number in range(5):
        append(house.store, f"rewrite/rw-{number}", sample("RewriteProposed", rewrite=f"rw-{number}"))
    append(house.store, "hint/h", sample("HintRecorded", hint="hint-0"))
    champion = client.champion()
    assert champion is not None
    assert (champion.reason, champion.by) == ("second", "operator")
    assert [(move.reason, move.since) for move in client.champion_history()] == [("first", 2), ("second", 3)]
    listing = client.memory()
    paged = type(listing)(listing.connection, listing.path, listing.name, listing.read, page=2)
    assert [piece.name for piece in paged] == [f"rw-{number}" for number in range(5)]
    assert [piece.name for piece in listing.first(2)] == ["rw-0", "rw-1"]
    assert [(piece.name, piece.status) for piece in client.memory("hints")] == [("hint-0", "candidate")]
    assert list(client.verdicts()) == []
    assert [event.position for event in client.events(after=7)] == [8, 9]
    assert listing.polars()["rewrite"].to_list() == [f"rw-{number}" for number in range(5)]
    assert "<td>candidate</td>" in listing._repr_html_()
    with pytest.raises(flywheel_client.ApiError) as refused:
        client.gate("none")
    assert (refused.value.kind, "flywheel benchmark list" in str(refused.value)) == ("Unknown", True)


def test_runs_and_memory_are_drawn_for_notebooks(client: flywheel_client.Client, house: House) -> None:
    for number, score in enumerate((1.0, 0.0, 1.0)):
        with client.run("buy <tea>", run=f"ext-drawn-{number}", group="ext-drawn") as run:
            run.reward(score)
    plot = client.runs(text="drawn").plot()
    (share,) = plot.shares
    assert (share.hits, share.total) == (2, 3)
    low, high = share.interval
    assert (round(low, 3), round(high, 3)) == (0.208, 0.939)
    picture = ET.fromstring(plot._repr_svg_())  # noqa: S314 it is our own
    assert "2 of 3" in {each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert client.memory("hints").plot().shares == ()
    with pytest.raises(TypeError, match="no picture of Event"):
        client.events().plot()


def test_events_are_followed(client: flywheel_client.Client, house: House) -> None:
    append(house.store, "prices", sample("PriceBookSet"))
    assert [event.type for event in islice(client.follow(after=0), 2)] == ["TokenIssued", "PriceBookSet"]


# Without a server -----------------------------------------------------------------------------------------------------


def test_a_busy_or_lost_server_is_asked_again_with_the_same_key() -> None:
    keys: list[str] = []
    waits: list[float] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        keys.append(request.headers["Idempotency-Key"])
        if len(keys) == 1:
            raise httpx2.ConnectError("refused")
        if len(keys) == 2:
            return httpx2.Response(429, headers={"Retry-After": "3"}, json={})
        return httpx2.Response(201, json={"outcome": "committed"})

    connection = Connection("http://none", "t", transport=httpx2.MockTransport(answer), sleep=waits.append)
    assert connection.post("/v1/events", {}, key="k") == {"outcome": "committed"}
    assert (keys, waits) == (["k"] * 3, [0.2, 3.0])


def test_a_server_that_never_answers_is_named_and_one_that_refuses_is_asked_once() -> None:
    waits: list[float] = []

    def refuse(_request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    lost = Connection("http://none", "t", transport=httpx2.MockTransport(refuse), sleep=waits.append)
    with pytest.raises(flywheel_client.Unreachable, match="http://none"):
        lost.get("/v1/runs")
    assert waits == [0.2, 0.4, 0.8, 1.6, 3.2]
    odd = Connection(
        "http://none",
        "t",
        transport=httpx2.MockTransport(lambda _: httpx2.Response(502, text="<html>")),
        sleep=waits.append,
    )
    with pytest.raises(flywheel_client.ApiError, match="HTTP 502"):
        odd.get("/v1/runs")
    assert len(waits) == 5


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client's wheel, built without a network."""
    place = tmp_path_factory.mktemp("wheel")
    shutil.copytree(FOLDER, place / "client", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index", "--no-build-isolation", "--quiet"]
    done = subprocess.run(
        [*command, "-w", str(place), str(place / "client")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (found,) = place.glob("*.whl")
    return found


def test_the_wheel_holds_the_client_alone_and_asks_for_httpx2(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith("METADATA"))
        lines = archive.read(metadata).decode().splitlines()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"flywheel_client"}
    assert "flywheel_client/py.typed" in names
    always = [line for line in lines if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert always == ["Requires-Dist: httpx2<3,>=2.16"]


def test_the_wheel_is_imported_without_the_server(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    program = f"""
import sys
SERVER = {{"eventlog", "projections", "agents", "trainer", "gate", "api", "migrations", "fastapi", "starlette",
    "sqlalchemy", "psycopg", "pydantic", "msgspec", "polars", "pyarrow", "datasets", "numpy"}}
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in SERVER:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
sys.path.insert(0, {str(tmp_path / "site")!r})
import flywheel_client
assert flywheel_client.__file__.startswith({str(tmp_path)!r})
client = flywheel_client.connect("http://127.0.0.1:9", "token")
client.close()
print(sorted(SERVER & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
