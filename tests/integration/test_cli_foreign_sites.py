"""`flywheel env` on a site that somebody else built."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.envs.command import command_site
from agents.envs.foreign.dialect import Dialect, read_dialect
from agents.envs.provider import Site
from api.cli.main import run_command
from api.environments.connect import placed_at
from api.house import House
from tests.conftest import Database
from tests.foreign_site import TASK, TOKEN, Speech
from tests.preview_host import preview_of, recorded_api
from tests.sites import SharedSite

Flywheel = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with command_site("harbour", Speech(seeding="seed", operation="op", own_row=True).command(), TOKEN) as started:
        yield started


@pytest.fixture
def flywheel(empty_database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Flywheel:
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))
    monkeypatch.setenv("FLYWHEEL_ENV_ADMIN_TOKEN", TOKEN)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(["env", *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_what_was_observed_is_a_dialect_to_list_tasks_with(site: Site, flywheel: Flywheel, tmp_path: Path) -> None:
    code, out, _ = flywheel("observe", "--url", site.url, "--may-seed")
    assert code == 0
    file = tmp_path / "harbour.json"
    file.write_text(
        json.dumps({**json.loads(out), "site": "harbour", "tasks": [{"task_id": "T1", "instruction": "go"}]})
    )
    assert (read_dialect(file).seeding, read_dialect(file).row.operation) == ("seed", ("op",))
    code, out, _ = flywheel("list", "--url", site.url, "--dialect", str(file), "--json")
    assert (code, json.loads(out)) == (
        0,
        [{"site": "harbour", "admitted": None, "task": "T1", "cluster": "unsorted", "instruction": "go"}],
    )


def test_a_site_of_one_instance_is_probed_one_instance_at_a_time(
    site: Site, flywheel: Flywheel, tmp_path: Path
) -> None:
    file = tmp_path / "harbour.json"
    tasks = [{"task_id": TASK, "instruction": "reveal the two cheapest"}]
    file.write_text(json.dumps({"site": "harbour", "tasks": tasks}))
    code, out, err = flywheel("probe", "--url", site.url, "--dialect", str(file), "--json")
    assert code == 0, err
    found = {each["name"]: each["outcome"] for each in json.loads(out)["probes"]}
    assert {name for name, outcome in found.items() if outcome == "skipped"} == {
        "oracle_agent",
        "side_by_side",
        "pages_port",
        "killed_process",
    }
    assert set(found.values()) == {"passed", "skipped"}


def test_a_plain_address_needs_no_description(site: Site, shared_site: SharedSite, flywheel: Flywheel) -> None:
    code, out, _ = flywheel("list", "--url", site.url, "--json")
    assert (code, json.loads(out)) == (0, [])
    ours = shared_site("helpdesk")
    code, out, _ = flywheel("list", "--url", ours.url, "--admin-url", ours.admin_url, "--json")
    assert {row["site"] for row in json.loads(out)} == {"helpdesk"}


def test_an_address_without_a_dialect_is_registered_and_spoken_to_by_the_tolerant_client(
    site: Site, flywheel: Flywheel, empty_house: House
) -> None:
    code, _, err = flywheel("add", "harbour", "--url", site.url)
    assert code != 0
    assert "says that it is 'foreign': expected 'harbour'" in " ".join(err.split())
    assert empty_house.store.head() == 0
    with command_site("harbour", Speech(introduced=True).command(), TOKEN) as introduced:
        code, _, err = flywheel("add", "harbour", "--url", introduced.url)
        assert code == 0, err
        with placed_at(empty_house, "harbour") as placed:
            made = placed.environment.reset(5)
            assert (placed.environment.oracle(made, TASK).passed, placed.dialect) == (False, Dialect())


def test_a_site_in_a_sandbox(site: Site, flywheel: Flywheel, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "FLYWHEEL_DAYTONA_KEY is not set" in flywheel("list", "--sandbox", "harbour-1")[2]
    with (
        preview_of(site.url, "preview-token-8080") as pages,
        preview_of(site.url, "preview-token-8081") as admin,
        recorded_api("running", {"8080": pages, "8081": admin}) as (url, seen),
    ):
        monkeypatch.setenv("FLYWHEEL_DAYTONA_KEY", "key-1")
        monkeypatch.setenv("FLYWHEEL_DAYTONA_URL", url)
        code, out, _ = flywheel("observe", "--sandbox", "harbour-1", "--admin-port", "8081")
    assert (code, json.loads(out)["headers"]) == (0, {})
    assert len(seen) == 5


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "neither; expected --url or --sandbox"),
        (("--url", "http://a.test", "--sandbox", "x"), "an address and a sandbox"),
        (("--url", "nonsense"), "expected http"),
        (("--url", "http://127.0.0.1:9", "--dialect", "/no/such.toml"), "/no/such.toml"),
    ],
)
def test_what_names_no_site_is_said(flywheel: Flywheel, arguments: tuple[str, ...], told: str) -> None:
    code, _, err = flywheel("observe", *arguments)
    assert code == 64
    assert told in err


def test_without_a_token_nothing_is_asked(flywheel: Flywheel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLYWHEEL_ENV_ADMIN_TOKEN")
    assert "FLYWHEEL_ENV_ADMIN_TOKEN is not set" in flywheel("observe", "--url", "http://127.0.0.1:9")[2]
