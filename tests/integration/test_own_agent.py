"""An agent that is not ours: the tutorial word by word, what the log says of it, and controllers that are killed."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest
import typer

from agents.executors.outside.agent_spec import PROXY, read_agent
from api.cli.agent_options import player_of
from api.cli.main import run_command
from api.history.agent_replay import replay_agent
from api.history.replay import replay_run
from api.house import House
from api.settings import read_settings
from api.sweeps.executors import Way, options_of
from api.tokens import issue
from eventlog.blobs.conversations import get_messages
from eventlog.events import (
    EvaluationOpened,
    ModelCalled,
    PieceTried,
    RunFinished,
    RunMissing,
    RunStarted,
    SubstrateCredited,
    SweepPlanned,
    VerdictReached,
)
from tests.conftest import Database
from tests.killing import Child, Kill, Project, has_ended, project_on, the_log_is_whole
from tests.model_server import Asked, ModelServer, model_server
from tests.outside import write_agents
from tests.own_agent import DEAF, choose_link, commands, model_settings, write_own_agent
from tests.own_site import TOKEN, OwnSite, free_port, serve_own_site, wait_for_port
from tests.served import served_app

Flywheel = Callable[..., tuple[int, str, str]]
WITH_THE_PACKAGE: Final = pytest.param(
    True, marks=(pytest.mark.endure, pytest.mark.timeout(1_800)), id="with the package"
)
"""Each of some hundred runs imports the client of OpenAI, which takes a second."""


@pytest.fixture
def flywheel(
    empty_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Flywheel:
    """Run a command on an empty log, in an empty folder: exit code, standard output, standard error."""
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(list(arguments))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnSite]:
    with serve_own_site(tmp_path_factory.mktemp("shop")) as site:
        yield site


@pytest.fixture
def model(shop: OwnSite, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """The scripted model server, which the settings name, beside the shop's token."""
    with model_server(choose_link) as server:
        for name, value in {**model_settings(server.url), TOKEN: shop.token}.items():
            monkeypatch.setenv(name, value)
        yield server


def opened_evaluations(house: House) -> list[EvaluationOpened]:
    return [each for each in events(house, EvaluationOpened) if isinstance(each, EvaluationOpened)]


def champion_now(flywheel: Flywheel) -> str:
    return str(json.loads(flywheel("champion", "show", "--json")[1])["champion"])


def events(house: House, kind: type) -> list[object]:
    return [recorded.event for recorded in house.store.read(types=[kind.__name__])]


@pytest.mark.costly(
    "a page's promise: an agent of one's own from a function to a verdict, with every run of a real gate"
)
@pytest.mark.parametrize("has_client", [False, WITH_THE_PACKAGE])
def test_the_tutorial_leads_from_a_function_to_a_verdict(
    has_client: bool, flywheel: Flywheel, shop: OwnSite, model: ModelServer, tmp_path: Path, empty_house: House
) -> None:
    write_own_agent(tmp_path, has_client=has_client)
    said: dict[str, str] = {}
    for words in commands(shop):
        code, out, err = flywheel(*words)
        assert code == 0, (words, out, err)
        said[" ".join(words[:2])] = out
    names = ["env add", "env probe", "rollout sweep", "run --site", "gate explain", "champion show"]
    assert list(said) == names
    assert "promote" in said["gate explain"]
    sweeps = [each for each in events(empty_house, SweepPlanned) if isinstance(each, SweepPlanned)]
    (opened,) = opened_evaluations(empty_house)
    (executor,) = {each.executor for each in sweeps}
    assert executor is not None
    assert executor.startswith("agent:")
    assert {each.model for each in sweeps} == {opened.model} == {"openai:my-model python:agent:play"}
    assert opened.executor == executor
    runs = [each for each in events(empty_house, RunStarted) if isinstance(each, RunStarted)]
    told = {bool(each.applied) for each in runs if each.arm is not None and each.arm.arm == "challenger"}
    assert told == {True}
    assert not any(each.applied for each in runs if each.arm is not None and each.arm.arm == "champion")
    agent = ("--agent", "python:agent:play", "--test", "bootstrap")
    freeze = ("benchmark", "freeze", "small", "--site", "shop", "--sealed-seeds", "500-501", "--visible", "0")
    code, _, err = flywheel(*freeze, "--executor", "policy")
    assert code == 0, err
    code, _, err = flywheel("gate", "run", "--benchmark", "small", "--challenger", "base@0", *agent)
    assert code in {2, 3}, err
    assert [each.executor for each in opened_evaluations(empty_house)] == [executor, executor]
    code, _, err = flywheel("gate", "run", "--benchmark", "small", "--challenger", champion_now(flywheel), *agent)
    assert code == 64
    assert "the same memory" in " ".join(err.replace("│", " ").split())
    assert any(
        "What helped before in tasks like it" in asked.text and "'Jackets'" in asked.text for asked in model.asked
    )


@pytest.mark.costly("a course to a verdict, for an agent that reads no advice: every run of trials and of a real gate")
def test_an_agent_that_reads_no_advice_is_helped_by_what_the_endpoint_tells_its_model(
    flywheel: Flywheel,
    shop: OwnSite,
    model: ModelServer,
    tmp_path: Path,
    empty_house: House,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_own_agent(tmp_path, has_client=False)
    monkeypatch.setenv("FLYWHEEL_RECORD_SITE", "1")
    (tmp_path / "deaf.py").write_text(DEAF, "utf-8")
    for words in commands(shop)[:2]:
        assert flywheel(*words)[0] == 0
    agent = ("--agent", "python:deaf:play")
    code, _, err = flywheel("run", "--site", "shop", *agent, "--advice", "proxy", "--seeds", "6", "--verdicts", "1")
    assert code == 0, err
    (verdict,) = [each for each in events(empty_house, VerdictReached) if isinstance(each, VerdictReached)]
    assert verdict.verdict.decision == "promote"
    (sweep, *_) = [each for each in events(empty_house, SweepPlanned) if isinstance(each, SweepPlanned)]
    assert (sweep.model, options_of(sweep)) == (
        f"openai:my-model {PROXY}{agent[1]}",
        f"{' '.join(agent)} --advice proxy",
    )
    runs = {each.run: each for each in events(empty_house, RunStarted) if isinstance(each, RunStarted)}
    calls = [each for each in events(empty_house, ModelCalled) if isinstance(each, ModelCalled)]
    for call in calls:
        first = get_messages(empty_house.blobs, call.messages)[0]
        is_told = first["role"] == "system" and "“At the start: follow the link 'Jackets'" in str(first["content"])
        assert is_told == bool(runs[call.run].applied), call.run
    told = {run.arm.arm: bool(run.applied) for run in runs.values() if run.arm is not None}
    player = read_agent(agent[1], tmp_path, by_proxy=True)
    for run in {run.arm.arm: run.run for run in runs.values() if run.arm is not None}.values():
        found = replay_run(empty_house.store, empty_house.blobs, empty_house.views, run)
        compared = {"memory", "told", "calls in order", "tokens", "steps in order", "reward"}
        assert (found.divergence, compared - set(found.compared)) == (None, set())
        assert any("name the agent to play it again" in line for line in found.not_compared)
        again = replay_agent(empty_house, read_settings(), run, player)
        assert (again.divergence, again.trusted) == (None, ("what its site and its model answered",))
        other = replay_agent(empty_house, read_settings(), run, read_agent(agent[1], tmp_path))
        assert (other.divergence, len(other.trusted)) == (None, 2)  # the record of its model is told as it was
    assert told == {"champion": False, "challenger": True}
    opened = opened_evaluations(empty_house)[0].executor
    freeze = ("benchmark", "freeze", "small", "--site", "shop", "--sealed-seeds", "500-501", "--visible", "0")
    assert flywheel(*freeze, "--executor", "policy")[0] == 0
    flywheel("gate", "run", "--benchmark", "small", "--challenger", "base@0", *agent, "--test", "bootstrap")
    assert opened_evaluations(empty_house)[-1].executor != opened  # told otherwise, it is another agent


def asked_by_agents(model: ModelServer) -> list[Asked]:
    """What a model server was asked but for the first question of each command, which is Flywheel's own."""
    return [asked for asked in model.asked if "There is nothing to do." not in asked.text]


def test_the_client_of_openai_asks_through_a_key_of_the_run_and_its_calls_are_events_of_the_run(
    flywheel: Flywheel, shop: OwnSite, model: ModelServer, tmp_path: Path, empty_house: House
) -> None:
    write_own_agent(tmp_path, has_client=True)
    assert flywheel("env", "add", "shop", *shop.place, "--suite", "tasks.toml")[0] == 0
    assert flywheel("env", "probe", "shop")[0] == 0
    sweep = ("rollout", "sweep", "shop", "--agent", "python:agent:play", "--seeds", "0", "--siblings", "1", "--json")
    code, out, err = flywheel(*sweep)
    assert code == 0, err
    assert json.loads(out)["graded"] == 1
    queued = ("rollout", "sweep", "shop", "--agent", "python:agent:play", "--seeds", "1", "--siblings", "1")
    code, out, err = flywheel(*queued, "--plan-only", "--sweep", "queued")
    assert code == 0, err
    assert "FLYWHEEL_MODEL=my-model flywheel worker --site shop --agent python:agent:play" in " ".join(out.split())
    firsts = [asked for asked in model.asked if "There is nothing to do." in asked.text]
    assert firsts
    assert not any(asked.body.get("logprobs") for asked in firsts)  # whether its model has them is the agent's affair
    before = len(asked_by_agents(model))
    assert flywheel("worker", "--site", "shop", "--agent", "python:agent:play", "--until-empty")[0] == 0
    assert len(asked_by_agents(model)) > before
    calls = [each for each in events(empty_house, ModelCalled) if isinstance(each, ModelCalled)]
    assert len(calls) == len(asked_by_agents(model)) >= 1
    assert [call.index for call in calls if call.run == calls[0].run] == list(range(before))
    assert {call.role for call in calls} == {"policy"}
    assert all("authorization" not in asked.headers or "fw-run" not in str(asked.headers) for asked in model.asked)


BROKEN: Final = """
def play(task):
    print("\x1b[2Jlooking for a jacket", flush=True)
    raise RuntimeError("there is no jacket")
"""


def test_the_error_that_ended_an_agent_is_shown_with_its_run_and_steers_no_terminal(
    flywheel: Flywheel, shop: OwnSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_house: House
) -> None:
    monkeypatch.setenv(TOKEN, shop.token)
    write_own_agent(tmp_path, has_client=False)
    (tmp_path / "broken.py").write_text(BROKEN, "utf-8")
    assert flywheel("env", "add", "shop", *shop.place, "--suite", "tasks.toml")[0] == 0
    assert flywheel("env", "probe", "shop")[0] == 0
    sweep = ("rollout", "sweep", "shop", "--agent", "python:broken:play", "--seeds", "0", "--siblings", "1")
    assert flywheel(*sweep)[0] == 0
    (run,) = [each.run for each in events(empty_house, RunStarted) if isinstance(each, RunStarted)]
    _, out, _ = flywheel("runs", "show", run)
    assert "RuntimeError: there is no jacket" in out
    assert "[2Jlooking for a jacket" in out
    assert "\x1b" not in out
    monkeypatch.setenv("FLYWHEEL_TOKEN", issue(empty_house.store, "reader", "test"))
    with served_app(empty_house) as url:
        assert flywheel("runs", "show", run, "--server", url)[1] == out
        head = str(int(empty_house.views().upto))
        assert flywheel("runs", "show", run, "--server", url, "--as-of", head)[1] == out


def test_what_excludes_an_agent_of_ones_own_is_refused_before_anything_is_recorded(
    flywheel: Flywheel, tmp_path: Path, empty_house: House
) -> None:
    write_agents(tmp_path)
    agent = ("--agent", "python:strangers:buy")
    for words, said in (
        (("run", *agent, "--executor", "browser"), "in place of an executor"),
        (("run", *agent, "--loop", "both"), "--agent plays those of no model that the settings name"),
        (("run", *agent, "--loop", "slow", "--warm-up", "w.json"), "which are not the agent's: use --base"),
        (("run", *agent, "--timeout", "5"), "is too short for the agent's 120 seconds"),
        (("run", "--agent", "python:strangers:fly"), "defines no 'fly'"),
        (("run", *agent, "--advice", "proxy"), "--advice proxy tells an agent in its requests to a model"),
        (("run", "--advice", "proxy"), "is for an agent of your own"),
        (("run", "--agent", "policy", "--executor", "browser"), "in place of an executor"),
        (("rollout", "sweep", *agent, "--for-grpo"), "cannot be trained on"),
    ):
        code, _, err = flywheel(*words)
        assert code != 0
        assert said in " ".join(err.replace("│", " ").split()), err
    assert not events(empty_house, SweepPlanned)


def test_a_policy_is_an_agent_too() -> None:
    for executor in (Way.PLAN, Way.POLICY):
        assert player_of("policy", executor, None, "m1") == (Way.POLICY, None)
    assert player_of(None, Way.BROWSER, 1.0) == (Way.BROWSER, None)
    with pytest.raises(typer.BadParameter, match="in place of an executor"):
        player_of("policy", Way.DEMONSTRATION, None)


KILLS = (
    Kill("RunStarted", 2),
    Kill("RunFinished", 9),
    Kill("EvaluationOpened"),
    Kill("RunFinished", 20, "run/eval-1__"),
)


@pytest.mark.costly("a whole course of an agent by processes, four of them killed")
def test_a_course_of_an_agent_that_is_killed_goes_on_and_leaves_no_process(
    shop: OwnSite, model: ModelServer, empty_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_own_agent(tmp_path, has_client=False)
    monkeypatch.chdir(tmp_path)
    with project_on(empty_database, tmp_path / "project") as project:
        for words in commands(shop)[:2]:
            project.completed(project.begun(words))
        words = ["run", "--site", "shop", "--agent", "python:agent:play", "--seeds", "6", "--verdicts", "1"]
        project.driven(words, KILLS)
        assert [event.verdict.decision for event in project.events(VerdictReached)] == ["promote"]
        assert len(project.events(EvaluationOpened)) == 1
        assert all(has_ended(process) for name in PROGRAMS.values() for process in processes_at(name, tmp_path))
        the_log_is_whole(project)


@contextmanager
def capture_proxy(project: Project, port: str) -> Iterator[Child]:
    """`flywheel serve` as the model server of the agents, before the one that the variables name."""
    child = project.begun(["serve", "--port", port])
    try:
        wait_for_port(port)
        yield child
    finally:
        child.kill()
        child.wait()


@pytest.mark.endure
def test_thirty_kills_of_controllers_wardens_agents_and_a_proxy_count_nothing_twice(
    shop: OwnSite,
    model: ModelServer,
    empty_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    write_own_agent(tmp_path, has_client=False)
    monkeypatch.chdir(tmp_path)
    killed: Counter[str] = Counter()
    with project_on(empty_database, tmp_path / "project") as project, ExitStack() as proxies:
        for words in commands(shop)[:2]:
            project.completed(project.begun(words))
        port = free_port()
        proxy = proxies.enter_context(capture_proxy(project, port))
        monkeypatch.setenv("FLYWHEEL_MODEL_KEY", issue(project.house.store, "agents", "test"))
        monkeypatch.setenv("FLYWHEEL_MODEL_URL", f"http://127.0.0.1:{port}/ext-agents/v1")
        words = ["run", "--site", "shop", "--agent", "python:agent:play", "--seeds", "12", "--verdicts", "1"]
        child = project.begun(words)
        for number in range(30):
            kill = Kill(("RunStarted", "RunFinished")[number % 2], 3 + 4 * number)
            project.wait(kill, child)
            whom = ("agent", "controller", "warden", "controller", "agent", "proxy")[number % 6]
            match whom:
                case "controller":
                    assert project.strike(kill, child)
                    child = project.begun(words)
                    killed[whom] += 1
                case "proxy":
                    proxies.close()
                    with monkeypatch.context() as before_it:
                        before_it.setenv("FLYWHEEL_MODEL_URL", model.url)
                        proxy = proxies.enter_context(capture_proxy(project, port))
                    assert proxy.poll() is None
                    killed[whom] += 1
                case _:
                    killed[whom] += kill_one(PROGRAMS[whom], tmp_path, child)
        project.completed(child)
        ends = Counter(event.run for event in project.events(RunFinished, RunMissing))
        assert set(ends.values()) == {1}
        assert ends.keys() == {event.run for event in project.events(RunStarted, RunMissing)}
        assert len(project.events(VerdictReached)) <= 1
        assert all(has_ended(process) for name in PROGRAMS.values() for process in processes_at(name, tmp_path))
        tried = Counter((event.piece, event.run) for event in project.events(PieceTried))
        credited = Counter(event.run for event in project.events(SubstrateCredited))
        assert (set(tried.values()), set(credited.values())) == ({1}, {1})
        the_log_is_whole(project)
        record_property("ended", dict(Counter(event.type for event in project.events(RunFinished, RunMissing))))
    record_property("killed", dict(killed))
    assert all(killed[whom] for whom in ("agent", "controller", "warden", "proxy")), killed


PROGRAMS: Final = {"agent": b"task.py", "warden": b"warden.py"}


def kill_one(program: bytes, folder: Path, child: Child) -> int:
    """Kill a process of a program that plays in the folder, once there is one; how many were killed, 0 or 1."""
    until = time.monotonic() + 20
    while time.monotonic() < until and child.poll() is None:
        for process in processes_at(program, folder):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
                return 1
    return 0


def processes_at(program: bytes, folder: Path) -> list[int]:
    """Processes of agents, or of the wardens that started them, whose agents play in a folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (each / "cmdline").read_bytes()
            if (each / "cwd").resolve() == folder and program in line:
                found.append(int(each.name))
    return found
