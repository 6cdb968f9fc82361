"""Environments that are no web sites in the whole house: registered, probed, admitted, swept by a policy, graded."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from agents.envs.contract import MICRO
from agents.executors.open_actions import open_step
from agents.executors.policy import PolicyExecutor
from agents.models.model import CompletionRequest
from agents.models.scripted import Scripted
from agents.rollouts.sweep import SeedSweep
from api.course import Course
from api.environments.admission import admit_at_first_use, see_admission
from api.environments.connect import placed_at
from api.errors import WrongWay
from api.history.regrade import regrade_runs
from api.history.replay import replay_run
from api.house import House
from api.sweeps.executors import Way, executor_of
from api.sweeps.plan import first_facts, plan, site_templates
from api.sweeps.play import play_sweep
from eventlog.events import Event, RewardGraded, RunFinished, StepTaken
from projections.environments import ENVIRONMENTS
from tests.golden.make import Quiet
from tests.openenv_stand_in import drawn_by, stand_in

from .test_own_site import Flywheel, flywheel

__all__ = ["flywheel"]

E = TypeVar("E", bound=Event)
ROOM = "gymnasium.minigrid.MiniGrid-Empty-Random-5x5-v0"
GOAL = 8
"""The number of a goal in what an agent sees of a world of MiniGrid."""
SUMS = "reasoning-gym.chain_sum.max_digits-1.max_terms-2"


def answer(request: CompletionRequest) -> str:
    """The right sum at every other seed of the sampling, else a sentence around it."""
    first, sign, second = re.findall(r"(\d+) ([+-]) (\d+)", request.messages[1].text)[0]
    result = str(int(first) + int(second) if sign == "+" else int(first) - int(second))
    return result if (request.sampling.seed or 0) % 2 else f"The result is {result}."


def play_swept(house: House, name: str, script: Callable[[CompletionRequest], str], seeds: int, siblings: int) -> None:
    """Admit an environment at its first use unless it is, and play a sweep of it with a scripted policy."""
    with placed_at(house, name) as placed:
        assert placed.inside is not None
        executor = PolicyExecutor(Scripted(script), opening=placed.inside.opening)
        first_facts(house)
        admitting = partial(admit_at_first_use, placed=placed, reporter=Quiet()) if placed.is_ours else None
        see_admission(house, placed.environment, name, admitting)
        templates = site_templates(placed.environment)
        sweep = SeedSweep("swept-1", templates, range(seeds), siblings)
        planned = plan(house, house.views(), name, sweep, rng_seed=0, executor=executor)
        play_sweep(house, placed.environment, planned, Course(max_parallel=2), Quiet(), executor)


def of_type(house: House, kind: type[E]) -> list[E]:
    return [recorded.event for recorded in house.store.read() if isinstance(recorded.event, kind)]


def test_questions_are_admitted_swept_and_graded(empty_house: House) -> None:
    house = empty_house
    play_swept(house, SUMS, answer, 4, 6)
    state = house.views().get(ENVIRONMENTS, SUMS)
    assert state is not None
    assert state.failed_probes == ()
    graded, taken = of_type(house, RewardGraded), of_type(house, StepTaken)
    assert len(graded) == len(taken) == 24
    assert {event.action for event in taken} == {"answer"}
    assert all(event.argument is not None and house.blobs.get(event.argument).body for event in taken)
    assert 0 < sum(event.passed for event in graded) < 24
    assert {replay_run(house.store, house.blobs, house.views, event.run).outcome for event in graded} == {"identical"}


def test_a_run_without_pages_is_played_again_and_shows_where_it_would_go_another_way(
    empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = empty_house
    play_swept(house, SUMS, answer, 1, 1)
    (run,) = (event.run for event in of_type(house, RewardGraded))
    replayed = partial(replay_run, house.store, house.blobs, house.views, run)
    assert {"told", "calls", "steps", "end"} <= set(replayed().compared)
    monkeypatch.setattr("agents.executors.policy.open_system_prompt", lambda _: "You do it otherwise.")
    divergence = replayed().divergence
    assert divergence is not None
    assert (divergence.where, divergence.actual) == ("call 0", ("message 0, system: You do it otherwise.",))
    monkeypatch.undo()
    for action, argument, where in (("guess", "12", 0), ("answer", "another", 1)):
        monkeypatch.setattr(
            "agents.executors.policy.open_step_of", lambda *_, told=(action, argument): open_step(*told)
        )
        divergence = replayed().divergence
        assert divergence is not None
        assert (divergence.where, divergence.expected[where] != divergence.actual[where]) == ("step 0", True)
    monkeypatch.undo()
    monkeypatch.setattr("agents.rollouts.conversation_replay.advice_lines", lambda _: ("Count twice.",))
    divergence = replayed().divergence
    assert divergence is not None
    assert (divergence.where, "- “Count twice.”" in divergence.actual) == ("what it was told first", True)


def test_runs_without_pages_that_were_asked_again_or_halted_are_played_again_as_well(empty_house: House) -> None:
    house = empty_house

    def hesitate(request: CompletionRequest) -> str:
        """Nothing at first; at every other seed of the sampling nothing at all."""
        is_last = len(request.messages) > 2 and (request.sampling.seed or 0) % 2
        return answer(request) if is_last else ""

    play_swept(house, SUMS, hesitate, 2, 4)
    ended = {event.run: event.status for event in of_type(house, RunFinished)}
    assert {*ended.values()} == {"completed", "halted"}
    again = {run: replay_run(house.store, house.blobs, house.views, run) for run in ended}
    assert {(each.outcome, each.divergence) for each in again.values()} == {("identical", None)}
    assert all("calls" in each.compared for each in again.values())


def test_what_was_kept_of_a_run_without_pages_is_graded_again_by_another_verifier_and_back(empty_house: House) -> None:
    house = empty_house
    play_swept(house, SUMS, answer, 2, 3)
    before = {event.run: (event.score, event.passed) for event in of_type(house, RewardGraded)}
    assert {passed for _, passed in before.values()} == {True, False}
    assert any(0 < score < MICRO for score, _ in before.values())
    again = regrade_runs(house, "outcome-1", list(before))
    assert {each.run: (each.score, each.passed) for each in again} == {
        run: (MICRO * passed, passed) for run, (_, passed) in before.items()
    }
    back = regrade_runs(house, "oracle-1", list(before))
    assert {each.run: (each.score, each.passed) for each in back} == before


def guess(request: CompletionRequest) -> str:
    """The right number, which the swept seeds leave only one with such an end, at every other seed of the sampling."""
    (end,) = re.findall(r"a number, (\d) at its end", request.messages[1].text)
    (right,) = [number for number in map(drawn_by, range(3)) if number % 10 == int(end)]
    return str(right) if (request.sampling.seed or 0) % 2 else "no idea"


def test_a_server_of_openenv_is_registered_by_its_address_and_swept_by_its_name(
    flywheel: Flywheel, empty_house: House, tmp_path: Path
) -> None:
    suite = tmp_path / "guess.toml"
    suite.write_text(
        'name = "guess"\nenvironment = "openenv.guess"\n[[tasks]]\nid = "openenv.guess"\nthreshold = 0.75\n'
    )
    with stand_in() as url:
        code, out, err = flywheel("env", "add", "openenv.guess", "--url", url, "--suite", str(suite))
        assert (code, "flywheel rollout sweep openenv.guess --executor policy" in out) == (0, True), err
        code, out, err = flywheel("env", "probe", "openenv.guess")
        assert (code, "openenv.guess is admitted" in out) == (0, True), (out, err)
        play_swept(empty_house, "openenv.guess", guess, 3, 4)
    graded = of_type(empty_house, RewardGraded)
    assert {(event.score, event.passed) for event in graded} == {(900_000, True), (0, False)}
    assert len(graded) == 12
    assert {event.action for event in of_type(empty_house, StepTaken)} == {"guess"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("openenv.guess",), "no address was given; expected the address of its server"),
        (("openenv.guess", "--url", "http://127.0.0.1:1"), "schema"),
        ((SUMS, "--url", "http://127.0.0.1:1"), "the address http://127.0.0.1:1 was given; expected no address"),
        (("openenv.guess", "--sandbox", "box"), "it is no web site, and --sandbox is for sites"),
        (("openenv.guess", "--command", "serve {port}"), "it is no web site, and --command is for sites"),
    ],
)
def test_a_registration_that_does_not_fit_what_is_no_web_site_records_nothing(
    words: tuple[str, ...], said: str, flywheel: Flywheel, empty_house: House
) -> None:
    head = empty_house.store.head()
    code, _, err = flywheel("env", "add", *words)
    assert (code != 0, said in " ".join(err.split())) == (True, True), err
    assert empty_house.store.head() == head


def walk(request: CompletionRequest) -> str:
    """Go to the goal in what the agent sees of an empty room, or stop at once at every other seed of the sampling."""
    (seen,) = re.findall(r'\{"direction".*?\}', request.messages[-1].text)
    cells = json.loads(seen)["image"]
    goals = [(across - 3, 6 - down) for across in range(7) for down in range(7) if cells[across][down][0] == GOAL]
    across, ahead = goals[0] if goals else (-1, 0)
    action = "forward" if ahead else "left" if across < 0 else "right"
    if (request.sampling.seed or 0) % 2 == 0:
        action = "finish"
    return json.dumps({"why": "", "action": action, "argument": ""})


def test_a_world_of_gymnasium_is_swept_and_graded_against_the_threshold_of_its_suite(
    flywheel: Flywheel, empty_house: House, tmp_path: Path
) -> None:
    suite = tmp_path / "room.toml"
    suite.write_text(f'name = "room"\nenvironment = "{ROOM}"\n[[tasks]]\nid = "{ROOM}"\nthreshold = 0.5\n')
    assert flywheel("env", "add", ROOM, "--suite", str(suite))[0] == 0
    play_swept(empty_house, ROOM, walk, 4, 4)
    graded, taken = of_type(empty_house, RewardGraded), of_type(empty_house, StepTaken)
    assert len(graded) == 16
    assert {event.passed for event in graded} == {True, False}
    assert all(500_000 < event.score < 1_000_000 for event in graded if event.passed)
    assert {event.action for event in taken} == {"forward", "left", "right", "finish"}
    house = empty_house
    again = [replay_run(house.store, house.blobs, house.views, event.run) for event in graded]
    assert {(each.outcome, "steps" in each.compared) for each in again} == {("identical", True)}


@pytest.mark.parametrize("way", [Way.PLAN, Way.DEMONSTRATION])
def test_only_a_policy_acts_where_there_are_no_pages(empty_house: House, way: Way, tmp_path: Path) -> None:
    with (
        placed_at(empty_house, SUMS) as placed,
        pytest.raises(WrongWay, match="policy"),
        executor_of(way, empty_house.settings, inside=placed.inside),
    ):
        pass
