"""`diff`, `what-if` and `runs replay` on the golden log, and `--as-of` on every command that reads state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eventlog.database import open_engine
from eventlog.store import Append
from tests.conftest import Database, house_on

from .test_cli import Flywheel, commands, flywheel, shown

pytestmark = pytest.mark.reads

__all__ = ["flywheel"]

NO_STATE = frozenset(
    {
        ("artifact", "show"),  # its name is a position
        ("checkpoint", "verify"),  # of the position that its dataset was frozen at
        ("dataset", "verify"),  # of the position it was frozen at
        ("gate", "verify"),  # of the position it was decided at
        ("runs", "replay"),  # of the whole record of a run
        ("diff",),  # of the two positions it is given
        ("what-if",),  # up to --to
        ("replay",),  # up to --to
        ("blobs", "list"),  # of the bytes that are kept now
        ("blobs", "verify"),
        ("suite", "check"),  # of a file
        ("delegate", "replay"),  # of the whole record of a loop
        ("db", "status"),
        ("doctor",),
    }
)
"""Commands that print JSON and read no state at one position, or are told it in another way."""

CHANGES = (
    "run",
    "refine",
    "freeze",
    "refresh",
    "issue",
    "revoke",
    "point",
    "back",
    "serve",
    "export",
    "import",
    "erase",
    "withdraw",
    "sweep",
    "grade",
    "probe",
    "reset",
    "biased",
    "regrade",
    "worker",
    "train",
    "publish",
    "add",
    "resume",
    "answer",
    "abandon",
)
"""The last words of commands that do something."""

RUN = "marketplace-1__marketplace.lead_filtered_search__seed1__s0"


def reads() -> list[tuple[str, ...]]:
    """Every command that reads state: those of the log itself read events."""
    return [words for words in commands() if words[-1] not in CHANGES and words[0] != "log" and words not in NO_STATE]


@pytest.mark.parametrize("words", reads(), ids=" ".join)
def test_every_command_that_reads_state_takes_as_of(words: tuple[str, ...], flywheel: Flywheel) -> None:
    code, out, _ = flywheel(*words, "--help")
    assert code == 0
    assert "--as-of" in out or "--json" not in out


def test_a_read_as_of_a_position_answers_of_then(flywheel: Flywheel) -> None:
    def then(*words: str, at: int) -> Any:
        return shown(flywheel, *words, "--as-of", str(at))

    assert (len(then("benchmark", "list", at=3)), len(then("benchmark", "list", at=2))) == (1, 0)
    assert then("benchmark", "show", "marketplace-1", at=3)["repeats"] == 1
    assert [row["champion"] for row in then("champion", "history", at=650)] == ["base@0", "base@395"]
    assert (len(then("dataset", "list", at=649)), len(then("dataset", "list", at=650))) == (0, 1)
    assert [row["decision"] for row in then("gate", "list", at=600)] == [None]
    assert then("gate", "explain", "eval-1", at=648)["decision"] == "promote"
    assert [item["since"] for item in then("rewrites", "show", "rw-80280fbd00d0", at=385)["history"]] == [10, 384, 385]
    assert then("runs", "show", RUN, at=20)["status"] == "started"
    assert then("token", "list", at=652) == []
    code, _, err = flywheel("runs", "show", RUN, "--as-of", "5")
    assert (code, "No run is called" in err) == (1, True)


def test_a_rewrite_is_cold_as_of_the_time_of_the_position(flywheel: Flywheel) -> None:
    (row,) = [row for row in shown(flywheel, "rewrites", "list", "--as-of", "400") if row["status"] == "promoted"]
    assert row["rewrite"] == "rw-80280fbd00d0"


# diff -----------------------------------------------------------------------------------------------------------------


def test_diff_says_what_changed_in_sentences_and_in_json(flywheel: Flywheel) -> None:
    code, out, _ = flywheel("diff", "--from", "395", "--to", "649")
    assert code == 0
    assert "What changed from position 395 to 649:" in out
    assert "since 649: base@395, by gate (controller): better by 0.8 over 10 sealed instances [eval-1]" in out
    found = shown(flywheel, "diff", "--from", "395", "--to", "649")
    assert (found["champion"]["after"], found["runs"][0]["is_evaluation"]) == ("base@395", True)
    at = shown(flywheel, "log", "tail", "-n", "3")[0]["at"]
    assert shown(flywheel, "diff", "--from", at)["before"] == 650


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--from", "9", "--to", "5"), 1, "position 9 comes after the end position 5"),
        (("--from", "1", "--to", "99999"), 1, "Position 99999 "),
        (("--from", "99999"), 1, "Position 99999 "),
        (("--from", "yesterday"), 1, "'yesterday' is neither a position nor a time"),
        ((), 64, "Missing option '--from'"),
    ],
)
def test_diff_of_what_cannot_be_says_why(words: tuple[str, ...], code: int, said: str, flywheel: Flywheel) -> None:
    found, _, err = flywheel("diff", *words)
    assert (found, said in err) == (code, True)


def test_diff_of_a_position_with_itself_says_so(flywheel: Flywheel) -> None:
    assert flywheel("diff", "--from", "7", "--to", "7")[1] == "Both are position 7: nothing changed.\n"


# what-if --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["rule", "reward"])
def test_what_was_in_force_reads_back_and_changes_nothing(what: str, flywheel: Flywheel, tmp_path: Path) -> None:
    code, printed, _ = flywheel("what-if", f"--print-{what}")
    assert code == 0
    file = tmp_path / f"{what}.toml"
    file.write_text(printed)
    code, out, _ = flywheel("what-if", f"--{what}", str(file))
    assert (code, "Nothing would differ" in out) == (0, True)
    as_json = tmp_path / f"{what}.json"
    as_json.write_text(json.dumps(shown(flywheel, "what-if", f"--print-{what}")))
    found = shown(flywheel, "what-if", f"--{what}", str(as_json))
    assert {name for name, value in found.items() if value} == {"upto", what}


def test_what_if_appends_nothing_and_says_when_and_on_which_wins(flywheel: Flywheel, tmp_path: Path) -> None:
    before = shown(flywheel, "log", "head")
    file = tmp_path / "rule.toml"
    file.write_text("wins_to_promote = 2\n")
    code, out, err = flywheel("what-if", "--rule", str(file))
    assert code == 0
    assert "folding history again" in err
    assert "/" not in err
    assert "candidate at 10 → promoted at 385 → quarantined at 652" in out
    assert "recorded: candidate at 10 → promoted at 386" in out
    file.write_text("wins_to_promote = 5\n")
    code, out, _ = flywheel("what-if", "--rule", str(file), "--to", "648")
    assert "Runs are not played again" in out
    assert shown(flywheel, "log", "head") == before


def test_what_if_on_tables_is_what_it_is_on_a_log_that_is_folded(flywheel: Flywheel, tmp_path: Path) -> None:
    file = tmp_path / "reward.toml"
    file.write_text("pass_score = 0\nlambda_per_dollar = 1000000\n")
    found = shown(flywheel, "what-if", "--reward", str(file))
    assert (found["verdicts"][0]["actual"], found["verdicts"][0]["would"]) == ("promote", "hold")
    assert len(found["rewards"]) == 72


@pytest.mark.parametrize(
    ("words", "content", "code", "said"),
    [
        ((), "", 64, "expected one of --rule FILE, --reward FILE"),
        (("--rule", "FILE", "--reward", "FILE"), "", 64, "expected one of --rule FILE, --reward FILE"),
        (("--rule", "FILE", "--print-rule"), "", 64, "expected one of --rule FILE, --reward FILE"),
        (("--rule", "FILE"), "wins = 3", 1, "wins: Extra inputs are not permitted"),
        (("--reward", "FILE"), 'version = "oracle-7"', 1, "No verifier has the version 'oracle-7'"),
        (("--reward", "FILE"), "[prices]\nper_action = 1", 1, "prices.per_second: Field required"),
        (("--rule", "FILE", "--to", "99999"), "wins_to_promote = 3", 1, "Position 99999 "),
        (("--rule", "nothing/there.toml"), "", 1, "No such file"),
    ],
)
def test_what_if_of_what_cannot_be_says_why(
    words: tuple[str, ...], content: str, code: int, said: str, flywheel: Flywheel, tmp_path: Path
) -> None:
    file = tmp_path / "asked.toml"
    file.write_text(content)
    found, _, err = flywheel("what-if", *(str(file) if word == "FILE" else word for word in words))
    assert (found, said in err) == (code, True), err


# runs replay ----------------------------------------------------------------------------------------------------------


def test_a_run_replays_identically_from_its_record(flywheel: Flywheel) -> None:
    code, out, _ = flywheel("runs", "replay", RUN)
    assert code == 0
    assert out.startswith("identical: 11 steps over 4 recorded pages; memory, plan, steps, end, state, grade, reward")
    found = shown(flywheel, "runs", "replay", RUN)
    assert (found["outcome"], found["steps"], found["divergence"]) == ("identical", 11, None)
    assert flywheel("runs", "replay", "nothing")[0] == 1


@pytest.mark.writes
def test_a_run_that_diverges_shows_the_first_divergence_as_a_diff(flywheel: Flywheel, database: Database) -> None:
    """A run from outside whose record cannot have been: it says that a page without the link was followed."""
    engine = open_engine(database.app_url)
    house = house_on(engine, database)
    events = [item.event for item in house.store.read(stream=f"run/{RUN}")]
    name = "ext-forged"
    forged = []
    for event in events:
        fields: dict[str, Any] = {"run": name} | ({"group": name} if hasattr(event, "group") else {})
        if event.type == "RunStarted":
            fields["spec"] = event.spec.model_copy(update={"spec_id": name})
        if event.type == "StepTaken" and event.index == 6:
            fields["http_status"] = 404
        forged.append(event.model_copy(update=fields))
    house.store.append([Append(f"run/{name}", tuple(forged), "test")])
    engine.dispose()
    code, out, _ = flywheel("runs", "replay", name)
    assert code == 1
    assert "different: ext-forged diverges first in step 6" in out
    assert "--- recorded\n+++ replayed\n" in out
    assert "-outcome: ok\n" in out
    assert "+outcome: not_found\n" in out
    assert shown_anyway(flywheel, name)["divergence"]["where"] == "step 6"


def shown_anyway(flywheel: Flywheel, name: str) -> Any:
    return json.loads(flywheel("runs", "replay", name, "--json")[1])
