"""What benchmarks and faults stand on: the made events, the report, the journals of intentions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.chaos.intentions import Journal, call, is_pending, settled
from benchmarks.made import CYCLE, EVENTS_A_CYCLE, EVENTS_A_RUN, appends_of_run, batches, encoded_of_run
from benchmarks.report import at_least, at_most, between, percentile, report
from eventlog.codec import encode_append
from eventlog.store import Committed, Position, Repeated


@pytest.mark.parametrize("size", [1, 10, 100, 1000])
def test_batches_hold_exactly_their_events_and_no_key_comes_twice(size: int) -> None:
    made = list(batches(size, 5))
    keys = [request.key for batch in made for request in batch]
    assert [sum(len(request.events) for request in batch) for batch in made] == [size] * 5
    assert len(keys) == len(set(keys))


def test_a_run_is_the_same_whenever_it_is_made() -> None:
    assert appends_of_run(7) == appends_of_run(7)
    assert sum(len(request.events) for request in appends_of_run(7)) == EVENTS_A_RUN


def test_what_is_made_encoded_is_what_encoding_the_events_gives() -> None:
    made = [encoded for number in range(CYCLE) for encoded in encoded_of_run(number)]
    assert made == [encode_append(request) for number in range(CYCLE) for request in appends_of_run(number)]
    assert sum(len(encoded.events) for encoded in made) == EVENTS_A_CYCLE
    assert {encoded.events[0].type for encoded in made} >= {
        "RunMissing",
        "RewriteProposed",
        "RewriteWon",
        "RewriteLost",
    }


def test_floors_and_ceilings_are_missed_on_their_own_sides(capsys: pytest.CaptureFixture[str]) -> None:
    figures = {"rate": 3.0, "lag": 3.0, "fast": 5.0, "quick": 1.0}
    report("x", figures, {"rate": 4.0, "lag": at_most(2), "fast": at_least(5), "quick": at_most(1)})
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["missed"] == ["rate", "lag"]
    assert found["targets"]["lag"] == {"at_most": 2}


def test_a_figure_with_an_interval_is_missed_only_where_all_of_it_lies_beyond(
    capsys: pytest.CaptureFixture[str],
) -> None:
    spans = {"size": (0.04, 0.06), "power": (0.7, 0.79), "cover": (0.91, 0.94), "wide": (0.98, 0.99)}
    figures = {key: sum(span) / 2 for key, span in spans.items()}
    band = between(0.93, 0.97)
    report("x", figures, {"size": at_most(0.05), "power": 0.8, "cover": band, "wide": band}, intervals=spans)
    out = capsys.readouterr().out
    found = json.loads(out.splitlines()[-1])
    assert found["missed"] == ["power", "wide"]
    assert found["targets"]["cover"] == {"at_least": 0.93, "at_most": 0.97}
    assert found["intervals"]["size"] == [0.04, 0.06]
    assert "0.05 (0.04 to 0.06)" in out


def test_a_page_keeps_its_words_and_gets_new_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- measured -->\nold\n<!-- end of measured -->\nafter\n")
    report("x", {"rate": 3.0}, {"rate": 4.0}, left_out={"other": "not here"}, page=page)
    assert capsys.readouterr().out
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "| rate | 3 | ≥ 4 | missed |" in text
    assert "| other | left out |  | not here |" in text
    assert "old" not in text


def test_a_page_without_a_place_for_figures_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("words\n")
    with pytest.raises(ValueError, match="no place for figures"):
        report("x", {"rate": 3.0}, {}, page=page)
    assert page.read_text() == "words\n"


def test_the_percentile_is_a_value_that_was_measured() -> None:
    assert percentile([float(n) for n in range(1, 101)], 0.99) == 99
    assert percentile([7.0], 0.99) == 7


def test_a_journal_torn_by_a_kill_goes_on_from_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "w.journal"
    journal = Journal(path)
    journal.intend(1)
    with path.open("a") as file:
        file.write('{"n": 1, "ac')
    again = Journal(path)
    assert (again.number, again.is_pending) == (1, True)
    again.acknowledge([Repeated(Position(3), Position(4))])
    assert not is_pending(path)
    assert Journal(path).number == 1


def test_what_was_acknowledged_is_told_once_for_each_key(tmp_path: Path) -> None:
    number = next(n for n in range(1, 200) if len({r.key for r in call(5, "w", n)}) < len(call(5, "w", n)))
    requests = call(5, "w", number)
    journal = Journal(tmp_path / "w.journal")
    journal.intend(number)
    position, outcomes = 0, []
    for request in requests[:-1]:
        first, position = position + 1, position + len(request.events)
        outcomes.append(Committed(Position(first), Position(position), len(request.events)))
    journal.acknowledge([*outcomes, Repeated(Position(1), Position(1))])
    found = list(settled(5, [tmp_path / "w.journal"]))
    assert [item.request.key for item in found] == [request.key for request in requests[:-1]]
    assert [answer.is_repeated for answer in found[0].answers] == [False, True]
