"""Agents that are not ours, on the shop of the tutorial: graded as they left the instance, within limits."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.contract import Instance
from agents.executors.executor import Assignment, ExecutedStep
from agents.executors.outside.agent_spec import read_agent
from agents.executors.outside.errors import AgentChanged
from agents.executors.outside.executor import AgentExecutor
from agents.executors.outside.fence import fence_words
from agents.executors.outside.task_facts import AgentLimits
from agents.rollouts.play import Job, Means, Played, play
from agents.rollouts.record import stopwatch
from agents.rollouts.sweep import SeedSweep
from eventlog.events import Artifact, Memory, RewardGraded, RunFinished, RunMissing, SeedsRule, StepTaken, Template
from tests.outside import write_agents
from tests.own_site import OwnSite, serve_own_site
from tests.unit.test_agent_samples import BOOK

Kind = TypeVar("Kind")
LIMITS = AgentLimits(seconds=1.5, processes=8, output_bytes=100_000)
PATIENT = replace(LIMITS, seconds=30)
"""For agents that end by themselves, on a machine that does other work besides."""
SMALL = replace(PATIENT, memory_bytes=500 * 2**20)
SECRET = "postgresql://app:hidden@127.0.0.1/flywheel"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnSite]:
    with serve_own_site(tmp_path_factory.mktemp("shop")) as site:
        yield site


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_agents(tmp_path_factory.mktemp("strangers"))


@pytest.fixture(params=["fenced", "unfenced"])
def fence(request: pytest.FixtureRequest) -> tuple[str, ...]:
    found = fence_words() if request.param == "fenced" else ()
    if request.param == "fenced" and not found:
        pytest.skip("bubblewrap does not work here")
    return found


def job(max_steps: int = 40) -> Job:
    instruction = "Buy the cheapest jacket."
    template = Template(
        template_id="shop.buy",
        cluster="navigation",
        oracle_task_id="shop.buy",
        instruction=instruction,
        plan_text=instruction,
        max_steps=max_steps,
    )
    (spec,) = SeedSweep("s1", (template,), (3,)).specs()
    memory = Memory(upto=0, folds={}, without=(), digest="0" * 64)
    artifact = Artifact(weights="base", memory=memory)
    return Job(spec, template, "shop", artifact, pieces=(), candidate=None, arm=None, learns=False)


def play_agent(
    shop: OwnSite, agent: str, folder: Path, fence: tuple[str, ...] = (), limits: AgentLimits = LIMITS, most: int = 40
) -> Played:
    variables = {"PATH": os.environ["PATH"]}
    executor = AgentExecutor(read_agent(agent, folder), limits, variables, fence)
    with EnvClient(shop.url, shop.token) as client:
        return play(job(most), Means(client, BOOK, SeedsRule(), stopwatch, executor))


def one(played: Played, kind: type[Kind]) -> Kind:
    (found,) = [event for event in played.events if isinstance(event, kind)]
    return found


def outcome(played: Played) -> tuple[str, bool]:
    assert not [event for event in played.events if isinstance(event, RunMissing)], played.events
    return one(played, RunFinished).status, one(played, RewardGraded).passed


def printed(played: Played) -> str:
    """What the agent printed, as the last step of its run holds it."""
    last = [event for event in played.events if isinstance(event, StepTaken)][-1]
    return next((blob.body.decode() for blob in played.blobs if blob.digest == last.observation), "")


def strays() -> list[str]:
    """Command lines of processes of these agents."""
    return processes_with("strangers")


def processes_with(words: str) -> list[str]:
    """Command lines of processes that hold these words."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(each.read_bytes().replace(b"\0", b" ").decode())
    return [line for line in found if words in line]


ENDINGS = {
    "buy": ("completed", True),
    "raises": ("halted", True),
    "hangs": ("out_of_budget", True),
    "late": ("out_of_budget", False),
    "forks": ("halted", False),
    "escapes": ("completed", False),
    "floods": ("halted", True),
    "hoards": ("halted", True),
    "grades_itself": ("completed", False),
    "lies": ("completed", False),
    "nothing": ("completed", False),
    "reports_much": ("out_of_budget", False),
    "steps_by_pipe": ("out_of_budget", False),
    "steps_without_end": ("out_of_budget", False),
}
SLOW = {"hangs", "late", "steps_by_pipe", "steps_without_end"}


@pytest.mark.parametrize("agent", ENDINGS)
def test_an_agent_is_graded_as_it_left_the_instance_whatever_it_says_or_starts(
    shop: OwnSite, folder: Path, fence: tuple[str, ...], agent: str
) -> None:
    began = time.monotonic()
    limits = LIMITS if agent in SLOW else SMALL if agent == "hoards" else PATIENT
    played = play_agent(shop, f"python:strangers:{agent}", folder, fence, limits)
    assert outcome(played) == ENDINGS[agent]
    assert time.monotonic() - began < 60
    assert strays() == []
    steps = [event for event in played.events if isinstance(event, StepTaken)]
    assert len(steps) <= 41
    assert steps[-1].action == "finish"
    assert one(played, RewardGraded).shaped is None
    assert one(played, RunFinished).usage.actions is None
    if agent == "raises":
        assert "RuntimeError: the agent is broken" in printed(played)
    if agent == "grades_itself":
        assert "the grader answered []" in printed(played)
    if agent == "lies":
        assert [step.action for step in steps] == ["navigate", "submit", "finish"]


def test_an_agent_finds_no_address_of_the_database_and_no_token(
    shop: OwnSite, folder: Path, fence: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", SECRET)
    monkeypatch.setenv("FLYWHEEL_ENV_SHOP_TOKEN", shop.token)
    said = printed(play_agent(shop, "python:strangers:tells_its_world", folder, fence, PATIENT))
    own = said.partition("\n")[0]
    assert "FLYWHEEL_TASK_FILE" in own
    assert SECRET not in own
    assert shop.token not in own
    if fence:  # without a fence, the processes of this user can be read by this user
        assert SECRET not in said
        assert shop.token not in said


def test_behind_a_fence_an_agent_sees_no_home_of_another_run(
    shop: OwnSite, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fence = fence_words()
    if not fence:
        pytest.skip("bubblewrap does not work here")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    other = tmp_path / f"flywheel-agents-{os.getuid()}" / "run-other"
    other.mkdir(parents=True)
    assert "run-other" not in printed(play_agent(shop, "python:strangers:looks_at_others", folder, fence, PATIENT))
    assert "run-other" in printed(play_agent(shop, "python:strangers:looks_at_others", folder, (), PATIENT))


@pytest.mark.parametrize(
    ("wild", "passed"), [("kills_all_it_sees", False), ("forks", False), ("floods", True), ("hoards", True)]
)
def test_an_agent_that_is_wild_ends_its_own_run_and_no_other(
    shop: OwnSite, folder: Path, fence: tuple[str, ...], wild: str, passed: bool
) -> None:
    with ThreadPoolExecutor(2) as threads:
        ended, good = (
            threads.submit(play_agent, shop, f"python:strangers:{agent}", folder, fence, SMALL)
            for agent in (wild, "buy")
        )
        assert outcome(ended.result()) == ("halted", passed)
        assert outcome(good.result()) == ("completed", True)
    assert strays() == []


BROKEN_FENCES = {
    "it refuses": (("sh", "-c", "echo 'no namespaces for you' >&2; exit 1", "--"), "no namespaces for you"),
    "it starts another program": (("/bin/true", "--"), "it said nothing"),
    "there is none": (("/usr/bin/no-such-fence", "--"), "No such file or directory"),
}


@pytest.mark.parametrize("broken", BROKEN_FENCES)
def test_a_fence_or_a_warden_that_does_not_start_makes_the_run_missing_and_says_why(
    shop: OwnSite, folder: Path, broken: str
) -> None:
    fence, said = BROKEN_FENCES[broken]
    missing = one(play_agent(shop, "python:strangers:buy", folder, fence), RunMissing)
    assert missing.reason == "platform_error"
    assert said in missing.detail.partition(". Expected")[0]


PROGRAMS = {
    "exits with 9": ("exit 9", "halted"),
    "hangs": ("sleep {long}", "out_of_budget"),
    "forks": ("for each in $(seq 200); do sleep {long} & done; sleep {long}", "halted"),
    "floods": ("while :; do echo strangers strangers strangers strangers; done", "halted"),
    "leaves one behind": ("setsid sleep {long} & exit 0", "completed"),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_misbehaves_is_ended_with_everything_it_started(
    shop: OwnSite, folder: Path, fence: tuple[str, ...], program: str
) -> None:
    code, status = PROGRAMS[program]
    long = f"600.{time.time_ns()}"  # no other sleeper of this machine has it
    (folder / "strangers.sh").write_text(code.format(long=long), "utf-8")
    limits = LIMITS if program == "hangs" else PATIENT
    assert outcome(play_agent(shop, "command:sh strangers.sh", folder, fence, limits)) == (status, False)
    assert [each for each in strays() if "strangers.sh" in each] == []
    assert processes_with(long) == []


def test_a_program_of_another_language_gets_the_task_and_reports_steps_by_lines_of_a_file(
    shop: OwnSite, folder: Path
) -> None:
    (folder / "agent.sh").write_text(
        'echo "$FLYWHEEL_INSTRUCTION $HOME $1"\n'
        'test -r "$FLYWHEEL_TASK_FILE" || exit 9\n'
        """echo '{"name": "open the shop", "argument": "front"}' >> "$FLYWHEEL_STEPS_FILE"\n"""
        'test "$FLYWHEEL_URL" -a "$FLYWHEEL_SEED" -a "$FLYWHEEL_DEADLINE"\n'
    )
    played = play_agent(shop, "command:sh agent.sh 'two words'", folder)
    assert outcome(played) == ("completed", False)
    assert printed(played).startswith("Buy the cheapest jacket. /tmp/flywheel-agents-")
    assert printed(played).endswith("two words\n")
    steps = [event for event in played.events if isinstance(event, StepTaken)]
    assert [step.action for step in steps] == ["open_the_shop", "finish"]


def test_an_agent_that_changes_while_it_plays_is_not_played(shop: OwnSite, tmp_path: Path) -> None:
    folder = write_agents(tmp_path)
    agent = read_agent("python:strangers:nothing", folder)
    executor = AgentExecutor(agent, LIMITS, {"PATH": os.environ["PATH"]})
    (folder / "strangers.py").write_text("def nothing(task): ...")
    with EnvClient(shop.url, shop.token) as client, pytest.raises(AgentChanged, match="changed while it was playing"):
        play(job(), Means(client, BOOK, SeedsRule(), stopwatch, executor))
    assert read_agent("python:strangers:nothing", folder).recorded_name != agent.recorded_name


@pytest.mark.parametrize(("grace_s", "is_whole"), [(60.0, True), (-1.0, False)])
def test_steps_that_are_read_after_the_time_of_the_agent_are_kept_without_checks(
    folder: Path, monkeypatch: pytest.MonkeyPatch, grace_s: float, is_whole: bool
) -> None:
    monkeypatch.setattr("agents.executors.outside.executor.GRACE_S", grace_s)
    checked = []

    def watch(step: ExecutedStep) -> None:
        checked.append(step.index)
        time.sleep(0.05)

    agent = read_agent("python:strangers:reports_much", folder)
    executor = AgentExecutor(agent, LIMITS, {"PATH": os.environ["PATH"]})
    nowhere = Instance.model_validate({"seed": 1, "instance": "a", "url": "http://127.0.0.1:9/i/a/"})
    done = executor.execute(Assignment("look", (), 40), nowhere, watch)
    assert [each.step.action for each in done.taken] == ["look"] * 40 + ["finish"]
    assert (len(checked) == 40) == is_whole
