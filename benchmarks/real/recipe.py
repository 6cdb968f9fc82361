"""The part of the recipe: GRPO from the base, as a plain loop and through the log, datasets, trainer and gate, timed.

The questions, prompts, temperature, rewards, advantages, adapter and learning rate of both are the same. Our optimizer
begins anew with each stage, where the plain loop's goes on, and our trainer clips ratios, which are 1 here.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

from agents.envs.episodes.environment import EpisodeEnvironment
from agents.envs.episodes.episode import EpisodeKind
from agents.envs.episodes.opening import kind_of
from agents.envs.provider import Site
from agents.executors.episodes.kit import episodes_target
from agents.executors.episodes.surface import on_episodes
from agents.executors.kits import Inside
from agents.executors.open_actions import open_system_prompt
from agents.models.local.host import Host
from agents.models.local.network import TransformersEngine
from api.cli.output import TerminalReporter
from api.environments.connect import Placed
from api.house import House
from api.training.bases import add_base, find_source
from api.training.weights import base_of
from benchmarks.report import at_most, report
from projections.rewards import REWARDS

from .arms import LOOP, Workshop
from .effort import BASE, RANK, TRAINED, Effort
from .judged import judge_at_gate
from .last_number import answer_of, by_last_number
from .plain_task import Asked, PlainResult, PlainTask
from .questions import NUMBER, held_out_seeds, training_seeds_of
from .stage import MICRO, Stage, open_stage, success
from .subject import HeldOut, Subject
from .tables import PAGE

NAME: Final = "recipe"
SEED: Final = 1
MOST_TIMES: Final = 4
T = TypeVar("T")


@cache
def kind() -> EpisodeKind:
    """The questions, with the reward of the recipe."""
    return by_last_number(kind_of(TRAINED, None, MICRO))


def recipe_effort() -> Effort:
    """Sizes of the recipe: 14 steps of 8 questions by 8 samples of at most 16 tokens."""
    whole = Effort()
    return replace(
        whole,
        training_seeds=(SEED,),
        asked=0,
        rounds=14,
        questions=8,
        siblings=8,
        held_out_others=0,
        answer_tokens=16,
        at_once=64,
        grpo=whole.grpo.model_copy(update={"groups_per_step": 8, "max_tokens": 16}),
    )


def quick_recipe() -> Effort:
    """A trial of both ways, in which little can be learned."""
    return replace(recipe_effort(), rounds=2, held_out=8, sealed=40)


def recipe(effort: Effort) -> Subject:
    """What is learned: the questions of the sums, by the reward of the recipe."""
    return Subject(
        name=NAME,
        effort=effort,
        asked=lambda seed, part: {TRAINED: training_seeds_of(effort, seed, part)},
        columns={"held-out questions": (HeldOut(TRAINED, held_out_seeds(effort)),)},
        untrained=0,
        schema=NUMBER,
        open_tasks=_open_task,
    )


@contextmanager
def _open_task(_house: House) -> Iterator[Mapping[str, Placed]]:
    with EpisodeEnvironment(kind()) as environment:
        inside = Inside(
            environment=environment,
            address=environment.admin_url,
            executors={},
            opening=on_episodes(environment),
            target=lambda seeds, rng_seed: episodes_target(environment, seeds=seeds, rng_seed=rng_seed),
        )
        yield {TRAINED: Placed(Site(TRAINED, inside.address, inside.address, ""), environment, inside)}


def measure_recipe(folder: Path, effort: Effort, *, write: bool) -> None:
    """Time the plain loop, then ours, and tell what each learned.

    The log is a new one, because what was done before takes no time. It is made before the clock starts, and so is the
    base that both read.
    """
    with (
        TemporaryDirectory(prefix="recipe-", dir=folder) as place,
        open_stage(Path(place), recipe(effort), ends_at=float("inf")) as stage,
    ):
        base = base_of(stage.house, add_base(stage.house, find_source(BASE, None, None)).base, None)
        plain, plain_s = _timed(lambda: _plain(base.path, Path(place), effort))
        ours, ours_s = _timed(lambda: _ours(stage, base.path))
    _tell(effort, plain, plain_s, ours, ours_s, write=write)


def _plain(base: Path, folder: Path, effort: Effort) -> PlainResult:
    """Run the plain loop in a process of its own."""
    task, out = folder / "plain.json", folder / "plain-result.json"
    task.write_text(plain_task(effort).model_dump_json(), encoding="utf-8")
    warnings = ("-W", "ignore::FutureWarning")  # PEFT asks transformers for a name that it is to lose
    subprocess.run([sys.executable, *warnings, "-m", "benchmarks.real.plain", base, task, out], check=True)
    return PlainResult.model_validate_json(out.read_bytes())


def plain_task(effort: Effort) -> PlainTask:
    """What the plain loop is given: the questions of our sweeps, as our policy is asked them."""
    return PlainTask(
        steps=tuple(tuple(map(_asked, training_seeds_of(effort, SEED, turn))) for turn in range(1, effort.rounds + 1)),
        held_out=tuple(map(_asked, held_out_seeds(effort))),
        samples=effort.siblings,
        answer_tokens=effort.answer_tokens,
        learning_rate=float(effort.grpo.learning_rate),
        rank=RANK.rank,
        alpha=RANK.alpha,
        threads=effort.grpo.threads,
        seed=SEED,
    )


def _asked(seed: int) -> Asked:
    told = f"The task:\n{kind().instruction}\n\n{kind().start(seed).observation}"
    return Asked(system=open_system_prompt(kind().actions), user=told, answer=answer_of(kind(), seed))


def _ours(stage: Stage, base: Path) -> dict[str, float]:
    """Play held-out questions before and after the rounds, and judge what came of it at the gate."""
    (column,) = stage.subject.columns
    with closing(Host(base, TransformersEngine(threads=stage.effort.grpo.threads))) as host:
        workshop = Workshop(stage, host)
        before = success(workshop.held_out("base")[column])
        arm, loop_s = _timed(lambda: workshop.loop(SEED, None))
        after = success(workshop.held_out(LOOP, arm.state.checkpoint)[column])
        verdict, gate_s = _timed(lambda: judge_at_gate(workshop, arm))
    TerminalReporter().say(f"the gate's reasons: {'; '.join(verdict.reasons)}")
    rounds = stage.effort.rounds
    return {
        "ours, seconds of the rounds": loop_s,
        "ours, seconds of the gate": gate_s,
        "ours, steps": float(arm.spent.steps),
        "ours, mean reward of the first step": _mean_reward(stage.house, 1),
        "ours, mean reward of the last step": _mean_reward(stage.house, rounds),
        "ours, held-out questions right before": before,
        "ours, held-out questions right after": after,
        "ours, promoted by the gate": float(verdict.decision == "promote"),
    }


def _mean_reward(house: House, turn: int) -> float:
    """Mean reward of the runs of a round."""
    found = house.views().find(REWARDS, f"{LOOP}-{SEED}-{turn}__")
    return fmean(each.score / MICRO for each in found.values())


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    began = time.perf_counter()
    return work(), time.perf_counter() - began


def _tell(
    effort: Effort, plain: PlainResult, plain_s: float, ours: Mapping[str, float], ours_s: float, *, write: bool
) -> None:
    """Print the figures, and with `write` put them into the page."""
    ratio = "ours to plain, seconds"
    figures = {
        "plain loop, seconds": plain_s,
        "plain loop, seconds of sampling": plain.sampling_s,
        "plain loop, seconds of training": plain.training_s,
        "plain loop, mean reward of the first step": plain.rewards[0],
        "plain loop, mean reward of the last step": plain.rewards[-1],
        "plain loop, held-out questions right before": plain.before,
        "plain loop, held-out questions right after": plain.after,
        "ours, seconds": ours_s,
        **ours,
        ratio: ours_s / plain_s,
    }
    note = (
        f"{effort.rounds} steps of {effort.questions} questions by {effort.siblings} samples of at most "
        f"{effort.answer_tokens} tokens, prompts of some {plain.prompt_tokens} tokens, {effort.held_out} held-out "
        f"questions, one training seed."
    )
    page = PAGE if write else None
    report("demo-real, recipe", figures, {ratio: at_most(MOST_TIMES)}, page=page, note=note if write else "", part=NAME)
