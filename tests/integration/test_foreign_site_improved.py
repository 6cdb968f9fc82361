"""A site as others build them, from its command line to a promoted memory: no code, no forged admission."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from api.house import House
from eventlog.events import (
    BenchmarkFrozen,
    ChampionPointed,
    EnvironmentAdmitted,
    EnvironmentProbed,
    RewardGraded,
    VerdictReached,
)
from projections.rewrites import REWRITES
from tests import chandlery

from .test_own_site import Flywheel, flywheel
from .test_pools import DIALECT
from .test_registered_pools import SUITE

__all__ = ["flywheel"]

FORGOTTEN = '  { type = "select_option", intent = "agree", label = "Terms", value = "checked" },\n'
"""The step that the plan leaves out: without it the site refuses every order."""


@pytest.mark.costly("each instance of the site is a process, and a real gate plays 40 of them in both arms")
def test_a_site_of_one_instance_without_labels_is_admitted_and_improved_by_its_name_alone(
    flywheel: Flywheel, empty_house: House, tmp_path: Path
) -> None:
    dialect, suite = tmp_path / "chandlery.json", tmp_path / "chandlery.toml"
    dialect.write_text(json.dumps(DIALECT.model_dump(mode="json")))
    suite.write_text(SUITE.replace(FORGOTTEN, "").replace("200-299", "200-239"))
    assert FORGOTTEN in SUITE
    command = ("--command", f"{sys.executable} {chandlery.__file__} {{port}}", "--variable", "SEED={seed}")
    for words in (
        ("env", "add", "chandlery", *command, "--processes", "2", "--dialect", str(dialect), "--suite", str(suite)),
        ("env", "probe", "chandlery"),
        ("run", "--site", "chandlery", "--seeds", "4", "--verdicts", "1", "--max-parallel", "2"),
    ):
        code, out, err = flywheel(*words)
        assert code == 0, (words, out, err)

    events = [recorded.event for recorded in empty_house.store.read()]
    (probed,) = [each for each in events if isinstance(each, EnvironmentProbed)]
    assert {each.name for each in probed.probes if each.outcome == "skipped"} == {
        "oracle_agent",
        "wrong_token",
        "killed_process",
    }
    assert [each.by for each in events if isinstance(each, EnvironmentAdmitted)] == ["operator"]
    (verdict,) = [each.verdict for each in events if isinstance(each, VerdictReached)]
    assert (verdict.decision, verdict.mean_delta) == ("promote", 1_000_000)
    (frozen,) = [each for each in events if isinstance(each, BenchmarkFrozen)]
    assert {each.env_seed for each in frozen.tasks if each.is_sealed} == set(range(200, 240))
    (rewrite,) = [each for each in empty_house.views().find(REWRITES).values() if each.status == "promoted"]
    assert '"Terms"' in json.dumps(rewrite.change)
    champion = [each for each in events if isinstance(each, ChampionPointed)][-1]
    assert (champion.by, champion.evaluation) == ("gate", "eval-1")
    graded = [each.passed for each in events if isinstance(each, RewardGraded) and each.run.startswith("chandlery-1__")]
    assert graded == [False] * len(graded)
