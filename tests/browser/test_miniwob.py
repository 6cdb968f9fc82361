"""MiniWoB++ in Chromium: seeded, graded by the page itself, out of the agent's reach, and gone when it is closed."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest

from agents.envs.contract import Instance
from agents.envs.errors import EnvironmentDown, InstanceClosed, TaskNotGraded
from agents.envs.miniwob.environment import LEFT, NOT_DONE, WRONG, MiniWob
from agents.envs.miniwob.errors import UnknownPage
from agents.envs.miniwob.served import pages_folder
from agents.envs.miniwob.tabs import HEIGHT, WIDTH, Tabs, open_tabs
from agents.envs.miniwob.tasks import TASKS
from agents.executors.executor import Assignment, Execution, Executor, Watch, no_verification
from agents.executors.miniwob.executor import MiniWobScript, MiniWobSurface, on_miniwob
from agents.executors.miniwob.inspection import miniwob_inspectors
from agents.executors.miniwob.kit import open_in_tabs
from agents.executors.miniwob.plan import MiniWobPlan
from agents.executors.miniwob.scripts import SCRIPTS
from agents.executors.policy import PolicyExecutor
from agents.learning.occasions import text_and_change
from agents.learning.recovery.failing import failed_run
from agents.learning.recovery.recover import recover
from agents.models.scripted import Scripted
from agents.plans import apply_overlay
from agents.rollouts.dispatching.dispatch import Call, Dispatch
from agents.rollouts.play import Job, Means, play
from agents.rollouts.record import rollout, stopwatch
from agents.rollouts.sweep import SeedSweep, plan_sweep
from api.settings import read_settings
from api.sweeps.plan import site_templates
from benchmarks.shipped import template
from eventlog.blobs import MemoryBlobs
from eventlog.events import HintRecorded, RewardGraded, RunMissing, SeedsRule, Step
from projections.rewards import REWARDS
from projections.runs import RUNS
from tests.integration.test_cli import Flywheel, flywheel, shown
from tests.unit.test_agent_samples import BOOK, EMPTY, a_store, views

__all__ = ["flywheel"]

pytestmark = pytest.mark.browser

ASSIGNMENT = Assignment("", (), max_steps=40)
OPENS = """
import sys
from agents.envs.miniwob.environment import MiniWob
from agents.envs.miniwob.tabs import open_tabs
from api.settings import read_settings
with open_tabs(read_settings().browser) as tabs, MiniWob("click-test", tabs) as env:
    env.reset(1)
    print("open", flush=True)
    sys.stdin.read()
"""


@dataclass(frozen=True)
class Idle:
    """An executor that does nothing."""

    name: str = "idle"
    offers_logprobs: bool = False

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        return Execution((), "completed")


@dataclass(frozen=True)
class Killing:
    """An executor whose browser dies under it."""

    tabs: Tabs
    browser: int
    name: str = "killing"
    offers_logprobs: bool = False

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        os.kill(self.browser, signal.SIGKILL)
        return MiniWobScript(self.tabs).execute(assignment, instance, watch)


@pytest.fixture(scope="module")
def tabs() -> Iterator[Tabs]:
    with open_tabs(read_settings().browser) as opened:
        yield opened


def surface(tabs: Tabs, instance: Instance) -> MiniWobSurface:
    with on_miniwob(tabs)(instance, {}) as opened:
        return opened


def played(env: MiniWob, tabs: Tabs, seed: int) -> dict[str, Any]:
    """Everything that can be said of an instance: left alone first, then solved by its script."""
    instance = env.reset(seed)
    start, view = env.state(instance), surface(tabs, instance).text()
    Idle().execute(ASSIGNMENT, instance)
    idle = env.oracle(instance, env.name)
    assert env.state(instance) == start
    execution = MiniWobScript(tabs).execute(ASSIGNMENT, instance)
    facts = {
        "start": start,
        "view": view,
        "idle": (idle.passed, idle.score_micro, idle.reasons),
        "status": execution.status,
        "taken": execution.taken,
        "graded": env.oracle(instance, env.name),
        "mutations": env.mutations(instance),
        "end": env.state(instance),
    }
    env.close(instance)
    return facts


@pytest.mark.parametrize("task", TASKS)
def test_a_script_solves_what_an_idle_agent_fails_and_equal_seeds_are_equal(task: str, tabs: Tabs) -> None:
    with MiniWob(task, tabs) as env, ThreadPoolExecutor(3) as pool:
        first, again, other = pool.map(lambda seed: played(env, tabs, seed), (1, 1, 2))
    assert first == again
    assert first["start"].fingerprint != other["start"].fingerprint
    for facts in (first, other):
        assert facts["idle"] == (False, 0, (NOT_DONE,))
        assert facts["status"] == "completed"
        assert (facts["graded"].passed, facts["graded"].score_micro, facts["graded"].reasons) == (True, 1_000_000, ())
        assert [mutation.id for mutation in facts["mutations"]] == [*range(1, len(facts["mutations"]) + 1)]
        assert facts["mutations"]
        assert facts["end"].fingerprint != facts["start"].fingerprint
    if TASKS[task].varies == "places":
        assert first["view"].splitlines()[0] == other["view"].splitlines()[0]


def test_every_task_has_a_script() -> None:
    assert SCRIPTS.keys() == TASKS.keys()
    assert len(TASKS) >= 20


def test_health_names_the_one_task_and_others_are_unknown(tabs: Tabs) -> None:
    with MiniWob("miniwob.click-button", tabs) as env:
        assert [task.task_id for task in env.health().tasks] == [env.name] == ["miniwob.click-button"]
        instance = env.reset(1)
        assert env.health().instances == 1
        with pytest.raises(TaskNotGraded):
            env.oracle(instance, "miniwob.click-link")
    with pytest.raises(UnknownPage):
        MiniWob("click-nothing", tabs)


def test_an_instance_made_anew_keeps_its_address_and_a_closed_one_is_gone(tabs: Tabs) -> None:
    with MiniWob("click-button", tabs) as env:
        instance = env.reset(1)
        solved = MiniWobScript(tabs).execute(ASSIGNMENT, instance)
        anew = env.reset(1, instance=instance)
        assert solved.taken
        assert anew == instance
        assert (env.mutations(anew), env.oracle(anew, env.name).passed) == ((), False)
        assert httpx2.get(instance.url, trust_env=False).status_code == 200
        env.close(instance)
        assert httpx2.get(instance.url, trust_env=False).status_code == 404
        with pytest.raises(InstanceClosed):
            env.state(instance)


def test_a_wrong_answer_fails_and_stays_the_answer(tabs: Tabs) -> None:
    with MiniWob("click-test-2", tabs) as env:
        instance = env.reset(1)
        hands = surface(tabs, instance)
        for label in ("TWO", "ONE"):
            assert hands.act(Step(type="click", intent="click", label=label)).outcome == "ok"
        graded = env.oracle(instance, env.name)
        assert (graded.passed, graded.score_micro, graded.reasons) == (False, 0, (WRONG,))
        assert graded.diff == {"raw_reward_micro": -1_000_000}


def test_part_of_an_answer_is_part_of_the_score(tabs: Tabs) -> None:
    with MiniWob("click-checkboxes", tabs) as env:
        instance = env.reset(2)
        hands = surface(tabs, instance)
        boxes = hands.look().fields("checkbox")
        hands.act(Step(type="submit", intent="submit", label="Submit"))
        named = hands.look().instruction.removeprefix("Select ").removesuffix(" and click Submit.").split(", ")
        assert 0 < len(named) < len(boxes)
        score = (len(boxes) - 2 * len(named)) / len(boxes)
        graded = env.oracle(instance, env.name)
        assert (graded.passed, graded.score_micro) == (score == 1, max(0, round(score * 1_000_000)))


def test_a_seed_and_its_repetition_are_two_instances(tabs: Tabs) -> None:
    with MiniWob("login-user", tabs) as env:
        starts = {env.state(env.reset(seed)).fingerprint for seed in (1, 11, 111)}
    assert len(starts) == 3


def test_siblings_do_not_see_each_other(tabs: Tabs) -> None:
    with MiniWob("enter-text", tabs) as env:
        busy, quiet = env.reset(1), env.reset(1)
        start = env.state(quiet)
        assert busy.url != quiet.url
        assert env.state(busy) == start
        MiniWobScript(tabs).execute(ASSIGNMENT, busy)
        assert env.oracle(busy, env.name).passed
        assert (env.state(quiet), env.mutations(quiet), env.oracle(quiet, env.name).passed) == (start, (), False)


def test_what_is_written_is_in_the_mutations_and_later_ones_can_be_asked_for(tabs: Tabs) -> None:
    with MiniWob("enter-text", tabs) as env:
        instance = env.reset(1)
        MiniWobScript(tabs).execute(ASSIGNMENT, instance)
        found = env.mutations(instance)
        assert [mutation.operation for mutation in found] == ["click", "change", "click"]
        asked = surface(tabs, instance).look().instruction.split('"')[1]
        assert (found[1].target_id, found[1].payload["value"]) == ("tt", asked)
        assert env.mutations(instance, since_id=2) == found[2:]


def test_an_agent_has_sight_mouse_and_keyboard_and_nothing_else(tabs: Tabs) -> None:
    with MiniWob("click-button", tabs) as env:
        instance = env.reset(1)
        hands = surface(tabs, instance)
        assert {name for name in dir(hands) if not name.startswith("_")} == {
            "act",
            "look",
            "screenshot",
            "text",
            "view",
        }
        said = hands.text().lower()
        assert not [word for word in ("reward", "episode", "time left") if word in said]
        picture = hands.screenshot()
        assert picture.startswith(b"\x89PNG")
        assert (int.from_bytes(picture[16:20]), int.from_bytes(picture[20:24])) == (WIDTH, HEIGHT)
        for step, outcome in (
            (Step(type="navigate", intent="leave", url="/"), "ok"),
            (Step(type="navigate", intent="leave", url="javascript:core.endEpisode(1)"), "forbidden"),
            (Step(type="navigate", intent="leave", url="../click-link.html"), "forbidden"),
            (Step(type="press_key", intent="reload", value="F5"), "no_such_field"),
            (Step(type="press_key", intent="reload", value="Control+R"), "no_such_field"),
            (Step(type="press_key", intent="go back", value="Alt+ArrowLeft"), "no_such_field"),
            (Step(type="click_at", intent="click", value="400,10"), "no_such_link"),
            (Step(type="click", intent="click", label="no such words"), "no_such_link"),
            (Step(type="fill_field", intent="type", label="no such words", value="x"), "no_such_field"),
            (Step(type="finish", intent="stop", value="reward 1"), "ok"),
        ):
            assert hands.act(step).outcome == outcome, step
        graded = env.oracle(instance, env.name)
        assert (graded.passed, graded.reasons, env.mutations(instance)) == (False, (NOT_DONE,), ())


LEAVING = """<!DOCTYPE html><html><head><script src="../core/core.js"></script><script>
var genProblem = function() {}; window.onload = function() { core.startEpisode(); };
</script></head><body><div id="wrap"><div id="query">Leave.</div><div id="area">
<a href="http://127.0.0.1:%(port)d/">out</a> <a href="click-test.html">beside</a>
<a href="http://127.0.0.1:%(port)d/" target="_blank">window</a> <button onclick="location.reload()">again</button>
<button onclick="fetch('http://127.0.0.1:%(port)d/').catch(() => {})">fetch</button>
<button onclick="this.dispatchEvent(new Event('change', {bubbles: true}))">pretend</button>
<button onclick="core.endEpisode(1)">right</button> <button onclick="core.endEpisode(-1)">wrong</button>
</div></div></body></html>"""


def test_a_page_is_never_left_and_its_first_result_stays(tmp_path: Path) -> None:
    (tmp_path / "core").symlink_to(pages_folder() / "core")
    (tmp_path / "miniwob").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.setblocking(False)
        for name in ("click-button", "click-test"):
            page = LEAVING % {"port": elsewhere.getsockname()[1]}
            (tmp_path / "miniwob" / f"{name}.html").write_text(page)
        with open_tabs(read_settings().browser, tmp_path) as own, MiniWob("click-button", own) as env:
            instance = env.reset(1)
            hands, view = surface(own, instance), surface(own, instance).text()
            for label in ("out", "beside", "window", "again", "fetch", "pretend"):
                assert hands.act(Step(type="click", intent="leave", label=label)).outcome == "ok"
                assert [line.split(" focused")[0] for line in hands.text().splitlines()] == view.splitlines()
            assert env.oracle(instance, env.name).reasons == (NOT_DONE,)
            with pytest.raises(BlockingIOError):
                elsewhere.accept()
            assert [mutation.operation for mutation in env.mutations(instance)] == ["click"] * 6
            for label in ("right", "wrong"):
                hands.act(Step(type="click", intent="end", label=label))
                assert env.oracle(instance, env.name).passed
            tab = own.tab(instance.instance)
            tab.call("leaving", lambda: tab.page.goto("about:blank"))
            graded = env.oracle(instance, env.name)
            assert (graded.passed, graded.reasons, hands.look().shown) == (False, (LEFT,), ())


def job(task: str, seed: int, siblings: int = 1) -> list[Job]:
    """A sweep's jobs for one task."""
    planned = template(f"miniwob.{task}", TASKS[task].asks)
    event = plan_sweep(SeedSweep("s1", [planned], [seed], siblings), planned.template_id, EMPTY, rng_seed=7)
    return [
        Job(spec, planned, planned.template_id, EMPTY, pieces=(), candidate=None, arm=None, learns=True)
        for spec in event.specs
    ]


def means(env: MiniWob, executor: Executor) -> Means:
    return Means(cast("Any", env), BOOK, SeedsRule(), stopwatch, executor)


@pytest.mark.parametrize("task", ["click-tab-2", "login-user", "choose-list"])
def test_a_sweep_is_in_the_log_from_start_to_reward(task: str, tabs: Tabs) -> None:
    store, blobs = a_store(), MemoryBlobs()
    with MiniWob(task, tabs) as env:
        told = means(env, MiniWobScript(tabs, pictures=True))
        calls = [Call(each) for each in job(task, 3, siblings=2)]
        runs = Dispatch(calls, lambda each, _: rollout(each, store, blobs, told), max_parallel=2).results()
    starts = set()
    for run in (each.call.work for each in runs):
        events: list[Any] = [recorded.event for recorded in store.read(stream=f"run/{run.run}")]
        types = [event.type for event in events]
        assert types[:2] + types[-2:] == ["RunStarted", "InstanceReset", "RunFinished", "RewardGraded"]
        assert set(types[2:-2]) == {"StepTaken"}
        found, reward = views(store).get(RUNS, run.run), views(store).get(REWARDS, run.run)
        assert found is not None
        assert reward is not None
        assert (found.status, reward.passed, reward.score) == ("completed", True, 1_000_000)
        assert blobs.get(events[2].screenshot).body.startswith(b"\x89PNG")
        assert len(json.loads(blobs.get(events[-2].end_state).body)) == events[-2].mutations > 0
        starts.add(events[1].fingerprint)
    assert len(starts) == 1


def test_an_idle_run_is_graded_and_fails(tabs: Tabs) -> None:
    with MiniWob("click-test", tabs) as env:
        played = play(job("click-test", 3)[0], means(env, Idle()))
    (graded,) = [event for event in played.events if isinstance(event, RewardGraded)]
    assert (graded.passed, graded.score, graded.reasons) == (False, 0, (NOT_DONE,))


def test_a_killed_browser_is_a_missing_run_and_the_next_instance_has_a_new_one() -> None:
    before = set(browsers(os.getpid()))
    with open_tabs(read_settings().browser) as own, MiniWob("click-test", own) as env:
        env.reset(1)
        (browser,) = set(browsers(os.getpid())) - before
        last = play(job("click-test", 3)[0], means(env, Killing(own, browser))).events[-1]
        assert isinstance(last, RunMissing)
        assert last.reason == "environment_down"
        instance = env.reset(1)
        MiniWobScript(own).execute(ASSIGNMENT, instance)
        assert env.oracle(instance, env.name).passed
        (again,) = set(browsers(os.getpid())) - before
        os.kill(again, signal.SIGKILL)
        with pytest.raises(EnvironmentDown):
            env.oracle(instance, env.name)
    assert set(browsers(os.getpid())) <= before


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_no_browser_outlives_its_process(how: signal.Signals) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", OPENS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child.stdin, child.stdout:
        assert child.stdout.readline() == b"open\n"
        family = [os.pidfd_open(pid) for pid in below(child.pid)]
        assert family
        os.kill(child.pid, how) if how == signal.SIGKILL else os.killpg(child.pid, how)
        child.wait(60)
    for process in family:
        ended, _, _ = select.select([process], [], [], 60)
        os.close(process)
        assert ended


def below(pid: int) -> list[int]:
    """The processes that descend from one."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if words[0] != "Z":
            parents[int(stat.parent.name)] = int(words[1])
    found, front = [], {pid}
    while front:
        front = {child for child, parent in parents.items() if parent in front}
        found += sorted(front)
    return found


def browsers(pid: int) -> list[int]:
    """Those of them that are a Chromium's first process."""
    found = []
    for child in below(pid):
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
        if b"--headless" in words and b"--type=" not in words:
            found.append(child)
    return found


def test_a_policy_acts_on_a_page_by_what_it_sees(tabs: Tabs) -> None:
    acts = [("navigate", "/"), ("click", "ONE"), ("finish", "")]
    said = [json.dumps({"why": "", "action": name, "target": target, "value": ""}) for name, target in acts]
    model = Scripted(said)
    with MiniWob("click-test-2", tabs) as env:
        instance = env.reset(3)
        assignment = Assignment("Click button ONE.", (), 9, page_headers={"X-Proxy": "1"})
        execution = PolicyExecutor(model, opening=on_miniwob(tabs)).execute(assignment, instance)
        assert execution.status == "completed"
        assert env.oracle(instance, env.name).passed
    assert "ONE" in model.requests[1].messages[-1].text


@pytest.mark.parametrize(
    ("task", "missed", "said"),
    [
        (
            "click-dialog",
            ("click", "Close the dialog", ""),
            "On /: follow the link 'Close', not: follow the link 'Close the dialog'.",
        ),
        (
            "enter-password",
            ("fill_field", "Verify the password", "x"),
            "On /: write 'x' into 'Verify password', not: write 'x' into 'Verify the password'.",
        ),
    ],
)
def test_what_works_on_a_page_where_a_policy_failed_is_said_in_words(
    task: str, missed: tuple[str, str, str], said: str, tabs: Tabs
) -> None:
    acts = (("navigate", "/", ""), missed, ("finish", "", ""))
    answers = [json.dumps({"why": "", "action": name, "target": at, "value": value}) for name, at, value in acts]
    store, blobs = a_store(), MemoryBlobs()
    with open_in_tabs(task, tabs) as inside:
        policy = PolicyExecutor(Scripted(answers), opening=inside.opening, inspect=inside.inspect)
        told = means(cast("Any", inside.environment), policy)
        (each,) = job(task, 3, siblings=1)
        rollout(each, store, blobs, replace(told, inspector=policy.inspectors()))
    hints = [each.event for each in store.read(types=["HintRecorded"])]
    assert said in [
        text_and_change(blobs.get(each.content).body)[0] for each in hints if isinstance(each, HintRecorded)
    ]


@pytest.mark.costly("probes a task and sweeps it in a Chromium of its own")
def test_a_task_is_admitted_and_swept_from_the_command_line(flywheel: Flywheel) -> None:
    site = "miniwob.click-button"
    sweep = ("rollout", "sweep", site, "--seeds", "3,4", "--siblings", "2")
    code, _, err = flywheel(*sweep)
    assert (code, "expected policy or delegation or miniwob-script" in err) == (1, True)
    assert "expected plan or browser or policy" in flywheel("rollout", "sweep", "--executor", "miniwob-script")[2]
    found = shown(flywheel, *sweep, "--executor", "miniwob-script")
    assert (found["graded"], found["passed"], found["missing"]) == (4, 4, 0)
    listed = next(row for row in shown(flywheel, "env", "list") if row["site"] == site)
    assert listed["admitted"] is not None
    assert {run["executor"] for run in shown(flywheel, "runs", "list", "--sweep", found["sweep"])} == {"miniwob-script"}
    assert flywheel("rollout", "sweep", "miniwob.no-such-task", "--executor", "miniwob-script")[0] == 1
    walked = shown(flywheel, "rollout", "sweep", site, "--seeds", "5", "--siblings", "1", "--executor", "miniwob-plan")
    (run,) = shown(flywheel, "runs", "list", "--sweep", walked["sweep"])
    again = shown(flywheel, "runs", "replay", run["run"])
    assert (again["outcome"], {"steps", "end"} - set(again["compared"])) == ("identical", set())


@pytest.mark.costly("probes a task in a Chromium of its own")
def test_a_task_is_probed_from_the_command_line(flywheel: Flywheel) -> None:
    found = shown(flywheel, "env", "probe", "miniwob.enter-text", "--seeds", "3,4")
    outcomes = {probe["name"]: probe["outcome"] for probe in found["probes"]}
    assert {name for name, outcome in outcomes.items() if outcome == "skipped"} == {
        "random_agent",
        "wrong_token",
        "killed_process",
    }
    assert set(outcomes.values()) == {"passed", "skipped"}
    (listed,) = (row for row in shown(flywheel, "env", "list") if row["site"] == "miniwob.enter-text")
    assert (listed["task"], listed["admitted"]) == ("miniwob.enter-text", found["probed_since"] + 1)


@pytest.mark.parametrize("task", ["click-button", "click-option", "click-tab", "login-user"])
def test_a_plan_with_slots_does_what_each_instance_asks_for(task: str, tabs: Tabs) -> None:
    with MiniWob(task, tabs) as env:
        for seed in (1, 2):
            instance = env.reset(seed)
            plan = site_templates(env)[0].plan_steps
            execution = MiniWobPlan(tabs).execute(Assignment("", plan, max_steps=9), instance)
            assert execution.status == "completed"
            assert tuple(taken.step for taken in execution.taken) == plan
            assert env.oracle(instance, env.name).passed


def test_a_plan_that_names_what_the_page_does_not_show_halts(tabs: Tabs) -> None:
    with MiniWob("enter-text", tabs) as env:
        instance = env.reset(1)
        plan = site_templates(env)[0].plan_steps
        execution = MiniWobPlan(tabs).execute(Assignment("", plan, max_steps=9), instance)
        assert (execution.status, [taken.outcome for taken in execution.taken]) == ("halted", ["no_such_field"])
        assert env.mutations(instance) == ()


@pytest.mark.parametrize("task", ["choose-list", "focus-text-2"])
def test_what_recovery_finds_in_one_instance_holds_in_others(task: str, tabs: Tabs) -> None:
    with MiniWob(task, tabs) as env:
        plan, instance = site_templates(env)[0].plan_steps, env.reset(3)
        assert MiniWobPlan(tabs).execute(Assignment("", plan, max_steps=9), instance).status == "halted"
        run = failed_run(env.name, plan, lambda piece: apply_overlay(plan, (), forced=piece), 0, 9)
        (found,) = recover("run", run, miniwob_inspectors(tabs, has_slots=True)(env, instance, 0)).proposals
        cured = apply_overlay(plan, (), forced=found.piece).plan
        for seed in (4, 5):
            other = env.reset(seed)
            MiniWobPlan(tabs).execute(Assignment("", cured, max_steps=9), other)
            assert env.oracle(other, env.name).passed
