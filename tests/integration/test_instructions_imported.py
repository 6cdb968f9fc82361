"""Instructions that a person brings in by a file: what they are tried in the place of, and what is said otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.learning.advice import READERS
from agents.learning.memory import content_reader
from agents.learning.memory_file import MemoryFileEntry, write_memory_files
from api.cli.main import run_command
from api.history.memory_file import Imported, import_memory
from api.house import House
from api.sweeps.candidates import TrialPool, trial_pool
from eventlog.events import Occasion, PairedRule, PieceProposed, PromotionRule, SeedsRule
from eventlog.store import Append
from tests.conftest import Database
from tests.golden.test_golden_samples import sample
from tests.unit.test_retrieval import SITE
from tests.unit.test_trials_told import DESK


def written(text: str, title: str = "", cluster: str | None = "desk") -> MemoryFileEntry:
    occasion = Occasion(environment=SITE, type="navigate", intent="", page="", cluster=cluster)
    return MemoryFileEntry(kind="instruction", occasion=occasion, title=title, text=text)


KNOCK, RING, WAIT = written("Knock.", "system"), written("Ring.", "in-of-another-log"), written("Wait.")


def bring_in(house: House, *entries: MemoryFileEntry, rule: PromotionRule | None = None) -> Imported:
    return import_memory(house, write_memory_files(entries)[0], rule or PairedRule(), "person")


def pool(house: House) -> TrialPool:
    return trial_pool(house.views(), content_reader(house.blobs)).among([DESK], SITE, READERS)


def promote(house: House, piece: str) -> None:
    """Three wins in a row, which is enough under the seeds' rule."""
    won = [
        sample("PieceTried", piece=piece, kind="instruction", run=f"s1__r{number}", withheld=False, won=True)
        for number in range(3)
    ]
    house.store.append([Append(f"instruction/{piece}", tuple(won), "test")])


def titles(house: House) -> dict[str, str]:
    events = (each.event for each in house.store.read(types=["PieceProposed"]))
    return {event.piece: event.title for event in events if isinstance(event, PieceProposed)}


def test_with_none_in_force_every_imported_instruction_is_tried_whatever_its_title(empty_house: House) -> None:
    found = bring_in(empty_house, KNOCK, RING)
    assert found.places == {KNOCK.piece: "", RING.piece: ""}
    assert titles(empty_house) == found.places
    assert pool(empty_house).names == {KNOCK.piece, RING.piece}


def test_one_that_is_imported_while_another_is_in_force_is_tried_in_its_place(empty_house: House) -> None:
    bring_in(empty_house, KNOCK, rule=SeedsRule())
    promote(empty_house, KNOCK.piece)
    found = bring_in(empty_house, KNOCK, RING)
    assert (found.fresh, found.places, found.untried) == ((RING.piece,), {RING.piece: KNOCK.piece}, {})
    assert titles(empty_house)[RING.piece] == KNOCK.piece
    assert pool(empty_house).names == {RING.piece}
    assert bring_in(empty_house, RING).untried == {}


def test_one_that_was_imported_before_another_came_into_force_is_named_with_the_way_out(
    empty_house: House,
    empty_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bring_in(empty_house, KNOCK, RING, rule=SeedsRule())
    promote(empty_house, KNOCK.piece)
    assert pool(empty_house).names == frozenset()
    for name, value in (
        ("FLYWHEEL_DATABASE_URL", empty_database.app_url),
        ("FLYWHEEL_OWNER_URL", empty_database.owner_url),
        ("FLYWHEEL_KEYS", str(empty_database.keys)),
    ):
        monkeypatch.setenv(name, value)
    file = tmp_path / "memory.json"
    file.write_text(write_memory_files([KNOCK, RING, WAIT])[0])
    assert run_command(["recipes", "import", str(file)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"{WAIT.piece}, which is tried in the place of {KNOCK.piece}" in said
    assert f"{RING.piece} is not tried: it was proposed before {KNOCK.piece} came into force. Change a word" in said
    assert f"{KNOCK.piece} is not tried" not in said
    assert pool(empty_house).names == {WAIT.piece}


def test_one_for_every_cluster_is_not_tried_where_these_have_others_in_force(empty_house: House) -> None:
    bring_in(empty_house, KNOCK, rule=SeedsRule())
    promote(empty_house, KNOCK.piece)
    every = written("Bow.", cluster=None)
    assert bring_in(empty_house, every).untried == {every.piece: ("", KNOCK.piece)}
    empty = written("Bow twice.", cluster="mail")
    assert bring_in(empty_house, empty).places == {empty.piece: ""}
