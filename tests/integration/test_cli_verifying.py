"""`--verify-steps` on the command line: a site's own record where it has one, the judge's model where it has none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.envs.admission import admit, record
from agents.envs.command import command_site
from agents.envs.contract import TaskText
from agents.envs.foreign.dialect import Dialect, Paths
from agents.envs.probing.probes import tasks_digest
from agents.envs.provider import Site
from api.cli.main import USAGE, run_command
from api.house import House
from eventlog.events import ModelCalled, Step, StepVerified, Template
from projections.environments import ENVIRONMENTS
from tests.admitted import admitted, report
from tests.conftest import Database
from tests.foreign_site import TASK, TOKEN, Speech
from tests.model_server import ModelServer, model_server
from tests.sites import SharedSite

PLAN = (
    Step(type="navigate", intent="open the boats", url="/boats"),
    Step(type="submit", intent="show a number", label="Show the number of 1000"),
)
TASKS = (TaskText(task_id=TASK, instruction="Show the numbers of the two cheapest boats."),)
SILENT = Dialect(site="harbour", tasks=TASKS, paths=Paths(mutations=None))
Flywheel = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def ours(shared_site: SharedSite) -> Site:
    return shared_site("marketplace")


@pytest.fixture(scope="module")
def silent() -> Iterator[Site]:
    """A foreign site that tells of no changes."""
    with command_site("harbour", Speech(mutations=False).command(), TOKEN) as running:
        yield running


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with model_server(lambda _: '{"passed": true, "reason": "it shows"}') as server:
        monkeypatch.setenv("FLYWHEEL_JUDGE_URL", server.url)
        monkeypatch.setenv("FLYWHEEL_JUDGE_MODEL", "checker")
        yield server


@pytest.fixture
def flywheel(empty_database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Flywheel:
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))

    def run(*arguments: str) -> tuple[int, str]:
        code = run_command([*arguments])
        return code, " ".join(capsys.readouterr().err.split())

    return run


@pytest.fixture
def at_silent(silent: Site, empty_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The options of the foreign site, which is admitted."""
    monkeypatch.setenv("FLYWHEEL_ENV_ADMIN_TOKEN", TOKEN)
    probed = report("marketplace").model_copy(
        update={"environment": "harbour", "tasks": (TASK,), "tasks_digest": tasks_digest(SILENT.tasks)}
    )
    record(empty_house.store, probed, "test")
    admit(empty_house.store, empty_house.views().find(ENVIRONMENTS)["harbour"], "test", "a test needs it")
    dialect = tmp_path / "harbour.json"
    dialect.write_text(SILENT.model_dump_json())
    return ("--url", silent.url, "--dialect", str(dialect))


@pytest.fixture
def tasks_file(tmp_path: Path) -> str:
    file = tmp_path / "templates.json"
    found = Template(
        template_id=TASK, cluster="c", oracle_task_id=TASK, instruction=TASKS[0].instruction, plan_steps=PLAN
    )
    file.write_text(json.dumps([found.model_dump(mode="json")]))
    return str(file)


def checks(house: House) -> list[tuple[str, str]]:
    """Who said what of each step, in order."""
    events = (recorded.event for recorded in house.store.read(types=["StepVerified"]))
    return [(event.by, event.said) for event in events if isinstance(event, StepVerified)]


def verifiers(house: House) -> list[str]:
    """The models of the calls that checked steps."""
    events = (recorded.event for recorded in house.store.read(types=["ModelCalled"]))
    return [event.model for event in events if isinstance(event, ModelCalled) and event.role == "verifier"]


def test_on_a_site_of_ours_no_model_is_called(
    flywheel: Flywheel, empty_house: House, ours: Site, judge: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    admitted(empty_house.store, "marketplace")
    monkeypatch.setenv("FLYWHEEL_ENV_ADMIN_TOKEN", ours.admin_token)
    at = ("--url", ours.url, "--admin-url", ours.admin_url, "--verify-steps")
    task = ("--task", "marketplace.control_draw", "--siblings", "1")
    assert flywheel("rollout", "sweep", "marketplace", *task, "--seeds", "0", *at)[0] == 0
    played = checks(empty_house)
    assert {by for by, _ in played} == {"oracle"}
    assert flywheel("rollout", "sweep", "marketplace", *task, "--seeds", "1", "--plan-only", *at[:-1])[0] == 0
    assert flywheel("worker", "--until-empty", *at)[0] == 0
    assert checks(empty_house) == played * 2
    assert (judge.asked, verifiers(empty_house)) == ([], [])


def test_on_a_site_without_a_record_the_judges_model_checks_the_steps(
    flywheel: Flywheel, empty_house: House, at_silent: tuple[str, ...], tasks_file: str, judge: ModelServer
) -> None:
    sweep = ("rollout", "sweep", "harbour", "--templates", tasks_file, "--siblings", "1", *at_silent)
    code, err = flywheel(*sweep, "--seeds", "0", "--verify-steps")
    assert (code, checks(empty_house)) == (0, [("model", "passed")] * 2), err
    assert flywheel(*sweep, "--seeds", "1", "--plan-only")[0] == 0
    code, err = flywheel("worker", "--site", "harbour", "--until-empty", "--verify-steps", *at_silent)
    assert (code, checks(empty_house)) == (0, [("model", "passed")] * 4), err
    assert [asked.body["model"] for asked in judge.asked] == ["checker"] * 4
    assert verifiers(empty_house) == ["checker-served"] * 4


def test_where_nobody_could_check_the_steps_nothing_is_planned(
    flywheel: Flywheel, empty_house: House, at_silent: tuple[str, ...], tasks_file: str
) -> None:
    sweep = ("rollout", "sweep", "harbour", "--templates", tasks_file, "--seeds", "0", "--verify-steps")
    code, err = flywheel(*sweep, *at_silent)
    assert (code, "FLYWHEEL_JUDGE_MODEL" in err) == (1, True)
    assert "SweepPlanned" not in empty_house.store.counts()
    code, err = flywheel("worker", "--site", "harbour", "--until-empty", "--verify-steps", *at_silent)
    assert (code, "FLYWHEEL_JUDGE_MODEL" in err) == (1, True)
    code, err = flywheel(*sweep, "--plan-only", *at_silent)
    assert (code, "--plan-only" in err) == (USAGE, True)
