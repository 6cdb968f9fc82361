"""Only what was probed is learned from: commands, controller and the REST list, on real sites and PostgreSQL."""

from __future__ import annotations

import json
import re
from functools import partial

import pytest
from fastapi.testclient import TestClient

from agents.envs.admission import record
from agents.envs.clients.client import EnvClient
from agents.envs.errors import NotAdmitted, OtherSite
from api.app import create_app
from api.controllers.fast import Controller
from api.course import Course
from api.environments import admission
from api.environments.admission import admit_at_first_use
from api.environments.connect import Placed
from api.house import House
from api.tokens import issue
from eventlog.events import BenchmarkFrozen, EnvironmentAdmitted, EnvironmentProbed, SweepPlanned
from projections.environments import ENVIRONMENTS
from tests.admitted import admitted, report
from tests.conftest import Database
from tests.golden.make import Quiet
from tests.sites import SharedSite

from .planted import changed, grades_anything, planted
from .test_cli import Flywheel, flywheel, shown

__all__ = ["flywheel"]

COURSE = Course(seeds_per_round=1, siblings=1, visible_seeds=(), sealed_seeds=(10_000,), max_rounds=1)


@pytest.fixture(scope="module")
def desk(shared_site: SharedSite, helpdesk: EnvClient) -> Placed:
    return Placed(shared_site("helpdesk"), helpdesk)


def kinds(house: House, *types: type) -> list[str]:
    return [recorded.event.type for recorded in house.store.read() if isinstance(recorded.event, types)]


def test_a_site_that_is_not_admitted_is_neither_frozen_nor_swept(empty_house: House, helpdesk: EnvClient) -> None:
    with pytest.raises(NotAdmitted, match="flywheel env probe helpdesk"):
        Controller(empty_house, helpdesk, "helpdesk", COURSE, Quiet()).run()
    assert kinds(empty_house, BenchmarkFrozen, SweepPlanned) == []


def test_an_admission_that_has_lapsed_stops_the_next_sweep(empty_house: House, helpdesk: EnvClient) -> None:
    admitted(empty_house.store, "helpdesk")
    controller = Controller(empty_house, helpdesk, "helpdesk", COURSE, Quiet())
    controller.run()
    planned = kinds(empty_house, SweepPlanned)
    assert planned
    record(empty_house.store, report("helpdesk", "failed"), "test")
    with pytest.raises(NotAdmitted, match="failed: null_agent"):
        controller.run()
    assert kinds(empty_house, SweepPlanned) == planned


def test_at_first_use_a_site_of_ours_is_probed_once_and_a_cut_short_probing_goes_on(
    empty_house: House, desk: Placed, helpdesk: EnvClient
) -> None:
    house = empty_house
    admit = partial(admit_at_first_use, placed=desk, reporter=Quiet())
    record(house.store, report("helpdesk"), "controller")
    Controller(house, helpdesk, "helpdesk", COURSE, Quiet(), admit=admit).run()
    Controller(house, helpdesk, "helpdesk", COURSE, Quiet(), admit=admit).run()
    assert kinds(house, EnvironmentProbed, EnvironmentAdmitted) == ["EnvironmentProbed", "EnvironmentAdmitted"]
    state = house.views().find(ENVIRONMENTS)["helpdesk"]
    assert (state.probed_since, state.rests_on, state.admitted_by) == (1, 1, "controller")


def test_a_site_is_admitted_in_the_session_that_holds_its_lock(empty_house: House, helpdesk: EnvClient) -> None:
    given: list[House] = []
    with pytest.raises(NotAdmitted):
        Controller(empty_house, helpdesk, "helpdesk", COURSE, Quiet(), admit=given.append).run()
    assert [house.store.session is None for house in given] == [False]


@pytest.mark.parametrize("outcome", ["passed", "failed"])
def test_what_an_operator_probed_last_and_did_not_admit_is_not_admitted_at_first_use(
    empty_house: House, desk: Placed, helpdesk: EnvClient, outcome: str
) -> None:
    house = empty_house
    admit = partial(admit_at_first_use, placed=desk, reporter=Quiet())
    record(house.store, report("helpdesk"), "controller")
    record(house.store, report("helpdesk", outcome), "operator")
    with pytest.raises(NotAdmitted, match="flywheel env probe helpdesk"):
        Controller(house, helpdesk, "helpdesk", COURSE, Quiet(), admit=admit).run()
    assert kinds(house, EnvironmentProbed, EnvironmentAdmitted, SweepPlanned) == ["EnvironmentProbed"] * 2


def test_a_report_of_other_tasks_declines_nothing(
    empty_house: House, desk: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = empty_house
    monkeypatch.setattr(admission, "report", lambda target, advance: report(target.name))
    record(house.store, report("helpdesk").model_copy(update={"tasks_digest": "0" * 64}), "operator")
    admit_at_first_use(house, desk, Quiet())
    assert house.views().find(ENVIRONMENTS)["helpdesk"].admitted_by == "controller"


def test_a_site_of_another_name_is_not_played_on(empty_house: House, helpdesk: EnvClient) -> None:
    admitted(empty_house.store, "marketplace")
    with pytest.raises(OtherSite, match="'helpdesk': expected 'marketplace'"):
        Controller(empty_house, helpdesk, "marketplace", COURSE, Quiet()).run()
    assert kinds(empty_house, BenchmarkFrozen, SweepPlanned) == []


def test_the_gate_plays_only_on_an_admitted_site(flywheel: Flywheel, house: House) -> None:
    record(house.store, report("marketplace", "failed"), "operator")
    promoted = shown(flywheel, "champion", "history")[1]["champion"]
    head = house.store.head()
    code, _, err = flywheel("gate", "run", "--challenger", promoted)
    assert (code, "is not admitted" in err, house.store.head()) == (1, True, head)


def test_a_site_that_fails_at_first_use_is_recorded_and_refused(
    empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = empty_house
    with (
        planted("helpdesk", changed(tell=grades_anything), monkeypatch) as site,
        EnvClient(site.admin_url, site.admin_token) as client,
    ):
        admit = partial(admit_at_first_use, placed=Placed(site, client), reporter=Quiet())
        with pytest.raises(NotAdmitted, match="position 3 failed: unknown_task"):
            Controller(house, client, site.name, COURSE, Quiet(), admit=admit).run()
    assert kinds(house, EnvironmentProbed, EnvironmentAdmitted, BenchmarkFrozen) == ["EnvironmentProbed"]


def test_a_site_is_probed_admitted_and_listed_by_command(flywheel: Flywheel, house: House) -> None:
    head = house.store.head()
    code, out, err = flywheel("env", "probe", "helpdesk", "--seeds", "3,4")
    assert code == 0, err
    assert f"helpdesk is admitted since position {head + 2}." in out
    assert re.search(r"null_agent\s+│ passed", out)
    listed = {row["site"]: row["admitted"] for row in shown(flywheel, "env", "list")}
    assert (listed["helpdesk"], listed["marketplace"]) == (head + 2, None)
    before = {row["site"]: row["admitted"] for row in shown(flywheel, "env", "list", "--as-of", str(head + 1))}
    assert before["helpdesk"] is None
    assert re.search(r"marketplace ┃?│? *no", flywheel("env", "list")[1].replace(" │", ""))


def test_a_failed_probe_is_recorded_named_and_exits_with_1(
    flywheel: Flywheel, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    with planted("helpdesk", changed(tell=grades_anything), monkeypatch) as site:
        monkeypatch.setenv("FLYWHEEL_ENV_ADMIN_TOKEN", site.admin_token)
        code, out, _ = flywheel("env", "probe", site.url, "--admin-url", site.admin_url, "--seeds", "3,4", "--json")
    assert code == 1
    told = json.loads(out)
    failed = {probe["name"]: probe["detail"] for probe in told["probes"] if probe["outcome"] == "failed"}
    assert failed == {"unknown_task": "a task that there is not was given the score 0"}
    assert (told["environment"], told["url"], told["admitted_since"]) == ("helpdesk", site.admin_url, None)
    assert house.views().find(ENVIRONMENTS)["helpdesk"].failed_probes == ("unknown_task",)


def test_a_report_alone_is_recorded_where_no_admission_is_wanted(
    flywheel: Flywheel, house: House, desk: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = desk.site
    monkeypatch.setenv("FLYWHEEL_ENV_ADMIN_TOKEN", site.admin_token)
    code, out, _ = flywheel("env", "probe", site.url, "--admin-url", site.admin_url, "--seeds", "3,4", "--no-admit")
    assert code == 0
    assert "was not admitted because of --no-admit" in out
    state = house.views().find(ENVIRONMENTS)["helpdesk"]
    assert (state.seeds, state.admitted_since, state.failed_probes) == ((3, 4), None, ())


@pytest.mark.parametrize(
    "words",
    [
        ("https://site.example",),
        ("helpdesk", "--admin-url", "https://admin.example"),
        ("helpdesk", "--seeds", "1,x"),
        ("helpdesk", "--seeds", "1,1"),
        ("https://site.example", "--admin-url", "https://admin.example"),
    ],
)
def test_a_command_that_cannot_be_meant_is_a_usage_error(words: tuple[str, ...], flywheel: Flywheel) -> None:
    assert flywheel("env", "probe", *words)[0] == 64


def test_an_instance_is_minted_to_be_looked_at(
    flywheel: Flywheel, desk: Placed, helpdesk: EnvClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = desk.site
    monkeypatch.setenv("FLYWHEEL_ENV_ADMIN_TOKEN", site.admin_token)
    made = shown(flywheel, "env", "reset", "--admin-url", site.admin_url, "--seed", "7")
    assert made["url"].startswith(site.url)
    assert helpdesk.state(made["instance"]).seed == 7
    again = shown(
        flywheel, "env", "reset", "--admin-url", site.admin_url, "--seed", "8", "--instance", made["instance"]
    )
    assert (again["instance"], helpdesk.state(made["instance"]).seed) == (made["instance"], 8)


def test_environments_are_listed_over_http_a_page_at_a_time(empty_house: House, empty_database: Database) -> None:
    house = empty_house
    record(house.store, report("marketplace", "failed"), "test")
    position = admitted(house.store, "helpdesk")
    headers = {"Authorization": f"Bearer {issue(house.store, 'test', 'test')}"}
    with TestClient(create_app(house), headers=headers) as client:
        first = client.get("/v1/environments", params={"limit": 1}).json()
        rest = client.get("/v1/environments", params={"after": first["next"]}).json()
        early = client.get("/v1/environments", params={"as_of": position - 1}).json()
    (helpdesk,), (marketplace,) = first["environments"], rest["environments"]
    assert (first["next"], rest["next"]) == ("helpdesk", None)
    assert (helpdesk["admitted_since"], helpdesk["rests_on"]) == (position, position - 1)
    assert (marketplace["admitted_since"], marketplace["probes"][0]["outcome"]) == (None, "failed")
    assert [each["admitted_since"] for each in early["environments"]] == [None, None]
