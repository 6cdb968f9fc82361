"""A site that is not ours: the tutorial word by word, and the commands that must work on it as on a bundled one."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from api.cli.main import run_command
from api.house import House
from api.queries.runs import show_run
from eventlog.events import EvaluationOpened, RewardGraded, SweepPlanned, VerdictReached
from projections.suites import SUITES
from tests.conftest import Database
from tests.killing import Kill, project_on, the_log_is_whole
from tests.own_site import PORT, TOKEN, OwnSite, blocks, serve_own_site

Flywheel = Callable[..., tuple[int, str, str]]


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


def commands() -> list[str]:
    """The commands of the page that Flywheel runs, in order."""
    return [line for block in blocks("sh") for line in block.splitlines() if line.startswith("flywheel ")]


@pytest.mark.costly("a page's promise: a strange site from its address to a verdict, with every run of a real gate")
def test_the_tutorial_leads_from_an_address_to_a_verdict_and_back(
    flywheel: Flywheel, shop: OwnSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, shop.token)
    said: dict[str, str] = {}
    for line in commands():
        words = shlex.split(line.replace(PORT, shop.port))
        code, out, err = flywheel(*words[1:])
        assert code == 0, (line, out, err)
        said[" ".join(words[1:3])] = out
        if words[1:3] == ["suite", "new"]:
            assert 'id = "shop.buy"' in (tmp_path / "shop.toml").read_text()
            (tmp_path / "shop.toml").write_text(shop.suite.read_text())
    assert list(said) == [
        "suite new",
        "suite check",
        "env add",
        "env probe",
        "run --site",
        "gate explain",
        "champion show",
        "champion back",
    ]
    assert "promote" in said["gate explain"]
    _, history, _ = flywheel("champion", "history", "--json")
    assert len(json.loads(history)) == 3
    _, suites, _ = flywheel("suite", "list", "--json")
    own = [row for row in json.loads(suites) if row["version"]]
    assert [(row["suite"], row["version"], row["environment"]) for row in own] == [("shop", 1, "shop")]


@pytest.fixture
def registered(flywheel: Flywheel, shop: OwnSite, monkeypatch: pytest.MonkeyPatch) -> Flywheel:
    """The shop is registered with its suite, and admitted."""
    monkeypatch.setenv(TOKEN, shop.token)
    assert flywheel("env", "add", "shop", *shop.place, "--suite", str(shop.suite))[0] == 0
    assert flywheel("env", "probe", "shop")[0] == 0
    return flywheel


def kinds(house: House) -> set[str]:
    """The types of the events in the log."""
    return {recorded.event.type for recorded in house.store.read()}


def test_a_registered_site_is_played_by_its_name_with_its_steps_checked_and_paid(
    registered: Flywheel, empty_house: House
) -> None:
    flywheel = registered
    code, out, err = flywheel(
        "rollout", "sweep", "shop", "--seeds", "0-1", "--siblings", "1", "--verify-steps", "--sweep", "first", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["graded"] == 2
    views = empty_house.views()
    (planned,) = [each.event for each in empty_house.store.read(types=["SweepPlanned"])]
    assert isinstance(planned, SweepPlanned)
    assert planned.suite == "shop@1"
    rewards = [each.event for each in empty_house.store.read(types=["RewardGraded"])]
    assert {each.terms.steps for each in rewards if isinstance(each, RewardGraded)} == {0}
    assert views.get(SUITES, "shop") is not None


def test_a_sound_plan_is_paid_for_its_step_and_the_gate_plays_the_version_that_the_sweep_was_played_from(
    registered: Flywheel, empty_house: House, shop: OwnSite, tmp_path: Path
) -> None:
    flywheel, sound = registered, tmp_path / "sound.toml"
    sound.write_text(shop.suite.read_text().replace('url = "/jackets"', 'url = "/catalogue"'))
    assert flywheel("rollout", "sweep", "shop", "--seeds", "0", "--suite", str(sound), "--verify-steps")[0] == 0
    rewards = [each.event for each in empty_house.store.read(types=["RewardGraded"])]
    assert {(each.passed, each.terms.steps) for each in rewards if isinstance(each, RewardGraded)} == {(True, 100_000)}
    run, *_ = [each.run for each in rewards if isinstance(each, RewardGraded)]
    code, out, _ = flywheel("runs", "show", run)
    assert re.search(r"step_reward\s+0\.1\b", out), out
    shown = show_run(empty_house.store, empty_house.views(), run)
    assert shown.reward is not None
    assert (shown.reward.steps, shown.reward.score) == (100_000, 1_000_000)
    for seeds, suite in (("1", "shop@1"), ("2", "shop@2")):
        assert flywheel("rollout", "sweep", "shop", "--seeds", seeds, "--suite", suite)[0] == 0
    sweeps = [each.event for each in empty_house.store.read(types=["SweepPlanned"])]
    assert [each.suite for each in sweeps if isinstance(each, SweepPlanned)] == ["shop@2", "shop@1", "shop@2"]
    freeze = ("benchmark", "freeze", "b", "--site", "shop", "--sealed-seeds", "10000-10001", "--visible", "0")
    assert flywheel(*freeze, "--suite", "shop@2")[0] == 0
    judging = ("gate", "run", "--challenger", "base@0", "--benchmark", "b", "--test", "bootstrap")
    code, _, err = flywheel(*judging, "--suite", "shop@1")
    assert code in {2, 3}, err
    (opened,) = [each.event for each in empty_house.store.read(types=["EvaluationOpened"])]
    assert isinstance(opened, EvaluationOpened)
    (plan,) = opened.suite
    assert b"/jackets" in empty_house.blobs.get(plan.plan).body


@pytest.mark.parametrize("shown_by", ["plans", "runs"])
def test_a_task_whose_answer_never_changes_is_named_before_it_is_judged(
    flywheel: Flywheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown_by: str
) -> None:
    with serve_own_site(tmp_path, answer='"jacket-7"') as shop:
        monkeypatch.setenv(TOKEN, shop.token)
        sound = shop.suite.read_text().replace('url = "/jackets"', 'url = "/jacket-7"')
        lines = [line for line in sound.splitlines() if "the cheapest jacket, the first" not in line]
        (tmp_path / "sound.toml").write_text("\n".join(lines))
        assert flywheel("env", "add", "shop", *shop.place, "--suite", str(shop.suite))[0] == 0
        more = ("--suite", "sound.toml")
        code, out, err = flywheel("env", "probe", "shop", *(more if shown_by == "plans" else ()), "--json")
        assert (code, json.loads(out)["alike"]) == (0, ["shop.buy"] if shown_by == "plans" else []), err
        if shown_by == "runs":
            assert flywheel("rollout", "sweep", "shop", "--seeds", "0-2", "--siblings", "1", *more)[0] == 0
        freeze = ("benchmark", "freeze", "b", "--site", "shop", "--sealed", "2", "--visible", "1")
        code, out, err = flywheel(*freeze)
        assert (code, "the same at every seed of shop.buy" in " ".join(out.split())) == (0, True), err


@pytest.mark.parametrize("command", ["freeze", "run"])
def test_nothing_is_frozen_where_a_task_has_no_plan_or_the_site_does_not_answer(
    registered: Flywheel, empty_house: House, tmp_path: Path, command: str
) -> None:
    flywheel, bare = registered, tmp_path / "bare.toml"
    bare.write_text('name = "bare"\nenvironment = "shop"\n[[tasks]]\nid = "shop.buy"\n')
    words = ("benchmark", "freeze", "b", "--site", "shop") if command == "freeze" else ("run", "--site", "shop")
    code, _, err = flywheel(*words, "--suite", str(bare))
    assert (code, "No plan is known for shop.buy" in err) == (64, True), err
    code, _, err = flywheel(*words, "--url", "http://127.0.0.1:9")
    assert code != 0
    assert "BenchmarkFrozen" not in kinds(empty_house)
    assert "SweepPlanned" not in kinds(empty_house)
    if command == "freeze":
        named = [getattr(each.event, "suite", "") for each in empty_house.store.read(types=["SuiteRegistered"])]
        assert "bare" not in named
        assert flywheel(*words, "--suite", str(bare), "--executor", "policy")[0] == 0


BAD = {
    "down": (["--url", "http://127.0.0.1:9"], "does not answer"),
    "other": (["--name"], "says that it is 'shop': expected 'harbour'"),
    "secret": (["--url", "http://ann:secret@127.0.0.1:9"], "holds a user, a password or a query"),
    "header": (["--dialect", 'headers = { X-Key = "secret" }'], "the value of the header X-Key stands in its dialect"),
    "dialect": (["--dialect", 'paths = { health = "/nowhere" }'], "health"),
    "fields": (["--suite", 'nome = "shop"'], "line 1, nome: Extra inputs"),
    "ungraded": (["--suite", 'oracle_task = "shop.sell"'], "tasks.0.oracle_task) has task 'shop.buy' with the oracle"),
    "environment": (["--suite", 'environment = "harbour"'], "line 1, environment) is for the environment 'harbour'"),
    "unknown": (["--suite-name", "harbour"], "no suite 'harbour'"),
    "token": (["--token"], "FLYWHEEL_ENV_NONE is not set"),
}


@pytest.mark.parametrize(("given", "said"), BAD.values(), ids=BAD)
def test_a_registration_that_does_not_fit_is_one_sentence_and_records_nothing(
    flywheel: Flywheel,
    empty_house: House,
    shop: OwnSite,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: list[str],
    said: str,
) -> None:
    monkeypatch.setenv(TOKEN, shop.token)
    words, (option, *value) = ["env", "add", "shop", *shop.place, "--suite", str(shop.suite)], given
    if option == "--name":
        words[2] = "harbour"
    elif option == "--token":
        words[words.index("--token-variable") + 1] = "FLYWHEEL_ENV_NONE"
    elif option == "--url":
        words[words.index("--url") + 1] = value[0]
    elif option == "--suite-name":
        words[-1] = value[0]
    else:
        file = tmp_path / "given.toml"
        file.write_text(_with(shop.suite.read_text(), value[0]) if option == "--suite" else value[0])
        words = [*words[:-2], option, str(file)]
    code, _, err = flywheel(*words)
    assert code != 0
    assert said in " ".join(err.split()), err
    assert {"SuiteRegistered", "EnvironmentRegistered"} & kinds(empty_house) == set()


def test_a_suite_file_is_checked_against_the_site_by_line_and_field(
    flywheel: Flywheel, shop: OwnSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, shop.token)
    assert flywheel("suite", "check", str(shop.suite), *shop.place)[0] == 0
    file, other = tmp_path / "ungraded.toml", tmp_path / "other.toml"
    file.write_text(_with(shop.suite.read_text(), 'oracle_task = "shop.sell"'))
    other.write_text(_with(shop.suite.read_text(), 'environment = "harbour"'))
    assert flywheel("suite", "check", str(file))[0] == 0
    code, out, _ = flywheel("suite", "check", str(file), *shop.place, "--json")
    line = 1 + file.read_text().splitlines().index('oracle_task = "shop.sell"')
    told = f"line {line}, tasks.0.oracle_task: 'shop.sell' is no task that shop grades; expected shop.buy"
    assert (code, json.loads(out)["faults"]) == (1, [told])
    code, out, _ = flywheel("suite", "check", str(other), *shop.place)
    assert (code, " ".join(out.split()).endswith("environment: it is 'harbour'; the site answers as 'shop'")) == (
        1,
        True,
    )


def _with(suite: str, line: str) -> str:
    """The suite with a line in place of that of the same field, else as its first one, or in its first task."""
    name = line.partition(" ")[0]
    if name == "oracle_task":
        return suite.replace('id = "shop.buy"', f'id = "shop.buy"\n{line}')
    kept = [each for each in suite.splitlines() if not each.startswith(f"{name} ")]
    return "\n".join([line, *kept])


@pytest.mark.costly("a whole course on a strange site by processes, one of them killed")
def test_a_run_on_a_strange_site_that_is_killed_goes_on_and_judges_once(
    registered: Flywheel, empty_database: Database, tmp_path: Path
) -> None:
    with project_on(empty_database, tmp_path / "project") as project:
        words = ["run", "--site", "shop", "--seeds", "6", "--verdicts", "1"]
        project.driven(words, [Kill("RewriteProposed"), Kill("RunFinished", 20, "run/eval-1__")])
        assert [event.verdict.decision for event in project.events(VerdictReached)] == ["promote"]
        assert len(project.events(EvaluationOpened)) == 1
        assert {event.suite for event in project.events(SweepPlanned)} == {"shop@1"}
        the_log_is_whole(project)
