"""Lists of commands come in pages: each names the place where it goes on, and a page costs the same in a longer log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from api.cli.main import run_command
from api.house import House
from api.queries.benchmarks import list_benchmarks
from api.queries.ledgers import list_ledgers
from api.queries.verdicts import list_verdicts
from eventlog.blobs import Blob
from eventlog.events import AnyEvent
from eventlog.store import Append
from tests.conftest import Database
from tests.golden.test_golden_samples import sample

from .test_reads_stay_small import rows_touched, statements
from .test_rest_samples import SampleRun, frozen, record, template

Flywheel = Callable[..., tuple[int, str, str]]
MANY = 5
CONTENT = Blob("application/json", b'{"change":null,"text":"Look below."}')
GOES_ON = re.compile(r"continue with --after (\S+),")

LISTS = [
    "rewrites list",
    "hints list",
    "exemplars list",
    "curriculum list",
    "recipes list",
    "benchmark list",
    "checkpoint list",
    "dataset list",
    "gate list",
    "gate ledger",
    "outcomes",
    "rollout status",
    "runs list",
    "skills list",
    "tools list",
    "delegate list",
]


@pytest.fixture
def flywheel(empty_database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Flywheel:
    """Run a command on the log of `empty_house`: exit code, standard output, standard error."""
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(list(arguments))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def facts(number: int) -> Iterator[tuple[str, AnyEvent]]:
    """One more of everything that is listed, each with the stream that it is appended to."""
    yield f"rewrite/rw-{number}", sample("RewriteProposed", rewrite=f"rw-{number}")
    yield f"hint/hint-{number}", sample("HintRecorded", content=CONTENT.digest, hint=f"hint-{number}")
    yield f"exemplar/ex-{number}", sample("ExemplarCaptured", content=CONTENT.digest, exemplar=f"ex-{number}")
    yield f"snippet/sn-{number}", sample("SnippetLearned", content=CONTENT.digest, snippet=f"sn-{number}")
    yield f"recipe/re-{number}", sample("RecipeImported", content=CONTENT.digest, recipe=f"re-{number}")
    yield f"checkpoint/{number}", sample("CheckpointSaved", checkpoint=f"{number:064x}")
    yield f"dataset/{number}", sample("DatasetFrozen", dataset=f"{number:064x}")
    yield f"sweep/s{number}", sample("SweepPlanned", sweep=f"s{number}")
    yield f"skill/sk-{number}", sample("SkillSaved", skill=f"sk_{number}")
    yield f"tool/dynamic.t{number}", sample("ToolForged", tool=f"dynamic.t{number}")
    yield f"loop/l{number}", sample("LoopOpened", loop=f"l{number}")
    yield from judged(number)


def judged(number: int) -> Iterator[tuple[str, AnyEvent]]:
    """A benchmark, and an evaluation on it that is decided."""
    benchmark = frozen(template(), 7).model_copy(update={"benchmark": f"b{number}", "digest": f"{number:064x}"})
    yield f"benchmark/b{number}", benchmark
    name = f"e{number}"
    opened = sample("EvaluationOpened", evaluation=name, benchmark=f"b{number}", benchmark_digest=f"{number:064x}")
    yield f"evaluation/{name}", opened
    reached = sample("VerdictReached")
    verdict = reached.verdict.model_copy(update={"evaluation": name, "benchmark": f"{number:064x}"})
    yield f"evaluation/{name}", reached.model_copy(update={"evaluation": name, "verdict": verdict})


def append_facts(house: House, numbers: range) -> None:
    house.blobs.put([CONTENT])
    for number in numbers:
        for stream, event in facts(number):
            house.store.append([Append(stream, (event,), "test")])
        record(house.store, house.blobs, SampleRun(f"s{number}__r", sweep=f"s{number}"))


def read_pages(flywheel: Flywheel, words: list[str], limit: int) -> list[Any]:
    """Every row of a list, read a page at a time from where the page before says."""
    found: list[Any] = []
    place: list[str] = []
    while True:
        code, out, err = flywheel(*words, "--limit", str(limit), *place, "--json")
        assert code == 0, err
        page = json.loads(out)
        assert 0 < len(page) <= limit
        found += page
        told = GOES_ON.search(err)
        if told is None:
            return found
        place = ["--after", told[1]]


def test_every_list_of_a_command_is_whole_in_pages_of_any_size(empty_house: House, flywheel: Flywheel) -> None:
    append_facts(empty_house, range(MANY))
    for words in map(str.split, LISTS):
        code, out, err = flywheel(*words, "--json")
        assert (code, err) == (0, ""), words
        whole = json.loads(out)
        assert len(whole) == MANY, words
        for limit in (2, MANY):
            assert read_pages(flywheel, words, limit) == whole, words
        code, out, err = flywheel(*words, "--limit", "3")
        assert (code, GOES_ON.search(err) is not None) == (0, True), (words, err)


def test_a_list_after_its_last_place_is_empty_and_says_so(empty_house: House, flywheel: Flywheel) -> None:
    append_facts(empty_house, range(1))
    for words in (
        ["benchmark", "list"],
        ["gate", "ledger"],
        ["skills", "list"],
        ["delegate", "list"],
        ["gate", "list"],
    ):
        assert flywheel(*words, "--after", "zz")[1].endswith(" after zz\n"), words


@pytest.mark.parametrize(
    "listing",
    [
        lambda views: list_benchmarks(views, limit=4),
        lambda views: list_ledgers(views, limit=4),
        lambda views: list_verdicts(views, limit=4),
    ],
    ids=["benchmarks", "ledgers", "verdicts"],
)
def test_a_page_about_the_gate_costs_the_same_in_a_longer_log(
    empty_house: House, listing: Callable[[Any], object]
) -> None:
    """As many statements for four rows as for one, and none that reads the verdicts of other benchmarks."""
    costs = []
    for numbers in (range(10, 15), range(15, 45)):
        for number in numbers:
            for stream, event in judged(number):
                empty_house.store.append([Append(stream, (event,), "test")])
        views = empty_house.views()
        listing(views)
        with statements(empty_house.engine) as executed:
            listing(views)
        costs.append((len(executed), rows_touched(empty_house.engine, partial(listing, views))))
    assert costs[1][0] == costs[0][0] <= 12, costs
    assert costs[1][1] <= 1.5 * costs[0][1], costs
