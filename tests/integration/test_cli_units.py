"""Commands that list what is counted in micro-units write decimals and dollars for people."""

from __future__ import annotations

import json

import pytest

from agents.learning.piece_content import MEDIA_TYPE, content_bytes
from api.cli.main import run_command
from api.house import House
from eventlog.blobs import Blob
from eventlog.events import PreferTarget
from eventlog.store import Append
from tests.conftest import Database
from tests.golden.test_golden_samples import sample


def test_lists_of_pieces_and_substrates_are_in_decimals_for_people_and_micro_units_for_programs(
    empty_house: House,
    empty_database: Database,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    site = {"environment": "marketplace", "cluster": "policy"}
    events = (
        sample("SubstrateChosen", **site),
        sample("SubstrateCredited", **site, applied=True, gain=900_000, cost=400),
    )
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    empty_house.store.append([Append("substrates/marketplace/policy", events, "test")])
    content = Blob(MEDIA_TYPE, content_bytes("Look below.", PreferTarget(label="Below")))
    empty_house.blobs.put([content])
    hint = sample("HintRecorded", hint="h1", content=content.digest)
    empty_house.store.append([Append("hint/h1", (hint,), "test")])

    def shown(*words: str) -> str:
        assert run_command(list(words)) == 0
        return capsys.readouterr().out

    for words in (("substrates", "list"), ("substrates", "show", "marketplace/policy")):
        assert all(text in shown(*words) for text in ("0.9", "$0.0004"))
    assert json.loads(shown("substrates", "list", "--json"))[0]["value_micro"] == 900_000
    assert " 0.5 " in shown("hints", "list")
    assert json.loads(shown("hints", "list", "--json"))[0]["worth"] == 500_000
    assert shown("hints", "list", "--status", "retired") == "no hints with the status retired\n"
