"""The demonstration on a real model: which instances are trained on and held out, how its sweeps are named, clicks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import pytest

from agents.envs.episodes.environment import EpisodeEnvironment
from agents.envs.miniwob import scripts
from agents.envs.miniwob.tabs import Tab
from agents.executors.episodes.surface import on_episodes
from agents.executors.executor import Assignment
from agents.executors.miniwob.executor import MiniWobSurface
from agents.executors.open_actions import open_step
from agents.executors.policy import PolicyExecutor
from agents.executors.surface import OpenSurface
from agents.models.model import CompletionRequest
from agents.models.scripted import Scripted
from api.sweeps.plan import site_templates
from benchmarks.real.arms import merged, sweep_name
from benchmarks.real.clicks import CLICK, ClickSurface
from benchmarks.real.effort import TRAINED, Effort, on_pages, quick_on_pages
from benchmarks.real.last_number import reward_of
from benchmarks.real.pages import CLICKED, OTHER, pages
from benchmarks.real.questions import ASKED, FIRST_HELD_OUT, sums
from benchmarks.real.recipe import SEED, kind, plain_task, recipe, recipe_effort
from benchmarks.real.subject import Subject

SHOWN = (
    {"kind": "div", "box": (2, 50, 60, 11), "at": (9, 55), "text": "eget amet"},
    {"kind": "button", "box": (2, -9, 60, 21), "at": (9, 2), "text": "Next"},
    {"kind": "button", "box": (2, 90, 60, 21), "at": (9, 99), "text": "okay"},
)


@dataclass(frozen=True)
class OnePage(Tab):
    """A tab whose page ends with a click on its last button."""

    clicks: list[tuple[int, int]] = field(default_factory=list)

    def read(self, script: str) -> Any:
        if script == scripts.LOOK:
            return {"instruction": 'Click on the "okay" button.', "shown": SHOWN}
        assert script == scripts.RESULT
        return {"begun": True, "done": (9, 99) in self.clicks, "raw": 1}

    def click_at(self, x: int, y: int) -> None:
        self.clicks.append((x, y))


def parts_of(subject: Subject) -> list[Mapping[str, tuple[int, ...]]]:
    """Training instances of every sweep, the base's and each round's, of all training seeds."""
    rounds = range(subject.effort.rounds + 1)
    return [subject.asked(seed, part) for seed in subject.effort.training_seeds for part in rounds]


@pytest.mark.parametrize("effort", [on_pages(), quick_on_pages()])
def test_no_page_is_played_in_two_sweeps_of_training_and_no_held_out_one_in_any(effort: Effort) -> None:
    subject = pages(effort)
    asked = [seed for part in parts_of(subject) for seeds in part.values() for seed in seeds]
    held_out = [seed for each in subject.held_out for seed in each.seeds]
    assert len(asked) == len(set(asked))
    assert len(held_out) == len(set(held_out))
    assert max(asked) < 9_000
    assert min(held_out) == FIRST_HELD_OUT
    assert {task for part in parts_of(subject) for task in part} == set(CLICKED)
    assert OTHER not in CLICKED


def test_pages_of_another_task_are_a_column_that_arms_are_not_compared_by() -> None:
    subject = pages(on_pages())
    assert {each.task for each in subject.columns[subject.compared]} == set(CLICKED)
    assert [each.task for column in subject.others for each in subject.columns[column]] == [OTHER]


def test_too_many_pages_for_the_seeds_of_a_training_seed_are_refused() -> None:
    with pytest.raises(ValueError, match="at most"):
        pages(replace(on_pages(), asked=2_000))


def test_the_sums_ask_in_training_what_they_asked_before_pages_were_a_part() -> None:
    """Their log is finished: other instances, or another order of the held-out ones, would play them anew."""
    pytest.importorskip("reasoning_gym")
    subject = sums(Effort())
    assert [each.seeds[0] for each in subject.held_out] == [30_000, 30_004, 30_000, 30_000, 30_000]
    assert [len(each.seeds) for each in subject.held_out] == [60, 30, 30, 30, 30]
    assert list(subject.columns)[1] == ASKED
    (first,), (last,) = subject.asked(1, 0).values(), subject.asked(3, 8).values()
    assert (first[:3], last[-3:], len(first), len(last)) == ((0, 4, 5), (6219, 6221, 6223), 480, 16)


def test_a_sweep_of_a_part_with_one_task_has_no_task_in_its_name() -> None:
    subject = pages(on_pages())
    assert [*map(partial(sweep_name, "loop-1-2", asked=subject.asked(1, 2)), CLICKED)] == [
        "loop-1-2-click-button",
        "loop-1-2-click-tab",
    ]
    assert sweep_name("loop-1-2", "reasoning-gym.chain_sum", {"reasoning-gym.chain_sum": (1,)}) == "loop-1-2"


def test_outcomes_of_several_tasks_are_those_of_all_instances() -> None:
    assert merged([{1: 0.0, 2: 1.0}, {}, {3: 0.5}]) == {1: 0.0, 2: 1.0, 3: 0.5}


def test_an_answer_is_clicked_with_or_without_quotes_and_the_last_click_ends_the_run() -> None:
    tab = OnePage("i", "http://page", "click-button", 1, cast("Any", None), cast("Any", None))
    surface = ClickSurface(MiniWobSurface(tab), tab)
    assert isinstance(surface, OpenSurface)
    assert surface.view() == 'Click on the "okay" button.\ndiv "eget amet"\nbutton "Next"\nbutton "okay"'
    acted = [surface.act(open_step(CLICK.name, answer)) for answer in ("the okay button", "Next", '"okay"')]
    assert [(each.outcome, each.is_last) for each in acted] == [
        ("no_such_link", False),
        ("ok", False),
        ("ok", True),
    ]
    assert tab.clicks == [(9, 2), (9, 99)]
    assert surface.act(open_step("drag", "okay")).outcome == "no_such_action"


@pytest.mark.parametrize(
    ("text", "reward"),
    [("12", 1.0), (" 12\n", 1.0), ("4 + 8 = 12", 0.5), ("12.", 0.5), ("12 or 13", 0.0), ("none", 0.0), ("-12", 0.0)],
)
def test_the_recipe_pays_a_half_for_the_right_last_number_and_all_for_the_number_alone(
    text: str, reward: float
) -> None:
    assert reward_of(text, "12") == reward


def test_the_plain_loop_is_asked_what_our_policy_is_asked_and_both_are_paid_alike() -> None:
    pytest.importorskip("reasoning_gym")
    effort = recipe_effort()
    task, asked = plain_task(effort), list[tuple[str, ...]]()

    def answer(request: CompletionRequest) -> str:
        asked.append(tuple(message.text for message in request.messages))
        return f"It is {task.steps[0][0].answer}"

    with EpisodeEnvironment(kind()) as environment:
        instance = environment.reset(recipe(effort).asked(SEED, 1)[TRAINED][0])
        policy = PolicyExecutor(Scripted(answer), opening=on_episodes(environment))
        (template,) = site_templates(environment)
        policy.execute(Assignment(template.instruction, (), template.max_steps), instance)
        graded = environment.oracle(instance, TRAINED)
    assert asked == [(task.steps[0][0].system, task.steps[0][0].user)]
    assert (graded.passed, graded.score_micro) == (True, 500_000)
    questions = [each.user for step in task.steps for each in step]
    assert (len(task.steps), len(questions), len(task.held_out)) == (14, 112, 60)
    assert {each.user for each in task.held_out}.isdisjoint(questions)
