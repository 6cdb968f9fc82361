"""What the four arms are made of: memory that plans learned, demonstrations, weights, and lessons in words.

All is done on one log by the code of the commands: sweeps, `base add`, `dataset freeze`, `train sft`. Everything is
found again in the log, so a killed call is resumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agents.executors.demonstration import Demonstrator
from agents.executors.executor import Executor
from agents.rollouts.play import PLAN
from agents.rollouts.sweep import SeedSweep
from api.course import Course
from api.datasets.demonstrations import keep_tokens
from api.environments.admission import first_admission, see_admission
from api.environments.connect import Placed, placed_at
from api.house import House
from api.reporter import Reporter
from api.sweeps.lessons import lessons_from
from api.sweeps.plan import plan, site_templates
from benchmarks.resuming import house_in, play_or_go_on, train_once
from eventlog.events import PairedRule, SftQuery, SweepPlanned, Template, Trials
from eventlog.weights_folder import Base
from projections.checkpoints import WeightsState
from projections.memories import candidacies, piece_kind
from projections.rewards import REWARDS

from .effort import SITE, TASK, Effort

PROJECT: Final = "arms"
ACTOR: Final = "demo"
RNG_SEED: Final = 7
SIBLINGS: Final = 1 + PairedRule().controls


@dataclass(frozen=True, slots=True)
class Scene:
    """The log, the site, and the task on it."""

    house: House
    placed: Placed
    task: Template
    effort: Effort
    reporter: Reporter

    @property
    def course(self) -> Course:
        """Course of the sweeps and evaluations."""
        return Course(max_parallel=self.effort.at_once)

    def play(
        self,
        name: str,
        seeds: Sequence[int],
        executor: Executor,
        *,
        siblings: int = 1,
        trials: Trials | None = None,
        learns: bool = False,
        weights: str | None = None,
        temperatures: tuple[int, ...] = (),
        tells: bool = False,
    ) -> SweepPlanned:
        """Play a sweep of the task with the present memory, or what is left of it; say how many plain runs passed."""
        sweep = play_or_go_on(
            self.house,
            self.placed.environment,
            name,
            lambda: plan(
                self.house,
                self.house.views(),
                SITE,
                SeedSweep(name, (self.task,), seeds, siblings, temperatures),
                rng_seed=RNG_SEED,
                trials=trials,
                learns=learns,
                executor=executor,
                actor=ACTOR,
                weights=weights,
                tells=tells,
            ),
            self.course,
            self.reporter,
            executor,
        )
        rewards = self.house.views().find(REWARDS, f"{name}__")
        plain = [spec.spec_id for spec in sweep.specs if spec.is_plain]
        passed = sum(rewards[run].passed for run in plain if run in rewards)
        self.reporter.say(f"{name}: {passed} of {len(plain)} plain runs passed; {len(rewards)} were graded")
        return sweep

    def promoted(self, *kinds: str) -> tuple[str, ...]:
        """Ids of the promoted pieces of these kinds."""
        found = candidacies(self.house.views()).items()
        return tuple(sorted(key for key, each in found if each.status == "promoted" and piece_kind(each) in kinds))


@contextmanager
def open_scene(folder: Path, effort: Effort, reporter: Reporter) -> Iterator[Scene]:
    """Open a log in a folder, and the site, admitted by its probes."""
    with (
        house_in(folder, PROJECT, policy_wording="brief", model_threads=effort.threads) as house,
        placed_at(house, SITE) as placed,
    ):
        see_admission(house, placed.environment, SITE, first_admission(placed, reporter))
        (task,) = (each for each in site_templates(placed.environment) if each.template_id == TASK)
        yield Scene(house, placed, task, effort, reporter)


def learn_by_plans(scene: Scene) -> tuple[str, ...]:
    """Rounds of plans until a change of the task's plan is promoted; the ids of what was."""
    for number in range(scene.effort.plan_rounds):
        scene.play(
            f"plans-{number}",
            scene.effort.plan_seeds(number),
            PLAN,
            siblings=SIBLINGS,
            trials=Trials.current(),
            learns=True,
        )
        if found := scene.promoted("rewrite"):
            return found
    return ()


def demonstrate(scene: Scene) -> None:
    """Demonstrations without memory, before anything is learned; then memory by plans, and demonstrations told it."""
    scene.play("plain", scene.effort.plain_seeds, Demonstrator(wording="brief"))
    learned = learn_by_plans(scene)
    scene.reporter.say(f"plans learned {', '.join(learned) or 'nothing'}")
    scene.play("told", scene.effort.told_seeds, Demonstrator(wording="brief"), tells=True)


def train(scene: Scene, base: Base) -> tuple[WeightsState, int]:
    """SFT of the base on the demonstrations that passed, of both sorts; the checkpoint and the number of rows."""
    tokens = keep_tokens(scene.house.blobs, base.path)
    query = SftQuery(runs="demonstration", sweep=("plain", "told"), tokens=tokens)
    return train_once(scene.house, query, base, scene.effort.sft, scene.reporter, ACTOR)


def learn_in_words(scene: Scene, executor: Executor, weights: str) -> tuple[str, ...]:
    """Rounds of the trained policy: what plans learned is proposed in words and tried; the ids of what was promoted."""
    course = scene.course
    for number in range(1 + scene.effort.rounds):
        sweep = scene.play(
            f"words-{number}",
            scene.effort.trial_seeds(number),
            executor,
            siblings=SIBLINGS if number else 1,
            trials=Trials.current() if number else None,
            weights=weights,
            temperatures=(course.temperature_micro,),
        )
        lessons_from(scene.house, sweep, course.rule, {"hint"})
        if found := scene.promoted("hint"):
            return found
    return ()
