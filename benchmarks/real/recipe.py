"""The part of the recipe: GRPO from the base, as a plain loop and through the log, datasets, trainer and gate, timed.

The questions, prompts, sampling, rewards, adapter and learning rate of both are the same, so what differs is the way.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from api.environments.connect import Placed
from api.house import House
from api.training.bases import add_base, find_source
from api.training.weights import base_of
from benchmarks.report import Target, at_least, at_most, report
from projections.rewards import REWARDS

from .arms import LOOP, Workshop
from .effort import BASE, RANK, TRAINED, Effort
from .judged import judge_at_gate
from .last_number import answer_of, by_last_number
from .plain_task import Asked, PlainResult, PlainTask
from .questions import NUMBER, held_out_seeds, training_seeds_of
from .stage import MICRO, open_stage, success
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
    """Sizes of the recipe (reference of the figures: docs/benchmarks/real.md): 14 steps of 8 questions by 8 samples."""
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
    """Time the plain loop, ours, and the plain loop again, and tell what each learned.

    The log is a new one, because what was done before takes no time.
    """
    with (
        TemporaryDirectory(prefix="recipe-", dir=folder) as place,
        open_stage(Path(place), recipe(effort), ends_at=float("inf")) as stage,
    ):
        base = base_of(stage.house, add_base(stage.house, find_source(BASE, None, None)).base, None)
        plain = [_plain(base.path, Path(place), effort)]
        with closing(Host(base.path, TransformersEngine(threads=effort.grpo.threads))) as host:
            ours = _ours(Workshop(stage, host))
        plain.append(_plain(base.path, Path(place), effort))
    _tell(effort, plain, ours, write=write)


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


def _ours(workshop: Workshop) -> dict[str, float]:
    """Seconds of each part of our way, the share of held-out questions right, and the verdict of the gate."""
    (column,) = workshop.stage.subject.columns
    before, before_s = _timed(lambda: success(workshop.held_out("base")[column]))
    arm, loop_s = _timed(lambda: workshop.loop(SEED, None))
    after, after_s = _timed(lambda: success(workshop.held_out(LOOP, arm.state.checkpoint)[column]))
    verdict, gate_s = _timed(lambda: judge_at_gate(workshop, arm))
    return {
        "before": before,
        "after": after,
        "held_out_s": before_s + after_s,
        "loop_s": loop_s,
        "gate_s": gate_s,
        "promoted": float(verdict.decision == "promote"),
        "steps": float(arm.spent.steps),
        "first reward": _mean_reward(workshop.stage.house, 1),
        "last reward": _mean_reward(workshop.stage.house, workshop.stage.effort.rounds),
    }


def _mean_reward(house: House, turn: int) -> float:
    """Mean reward of the runs of a round."""
    found = house.views().find(REWARDS, f"{LOOP}-{SEED}-{turn}__")
    return fmean(each.score / MICRO for each in found.values())


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    began = time.perf_counter()
    return work(), time.perf_counter() - began


def _tell(effort: Effort, plain: Sequence[PlainResult], ours: Mapping[str, float], *, write: bool) -> None:
    """Print the figures, and with `write` put them into the page."""
    alone = fmean(each.whole_s for each in plain)
    loop = ours["loop_s"] + ours["held_out_s"]
    figures = {
        "plain loop, seconds": alone,
        "plain loop, sampling": fmean(each.sampling_s for each in plain),
        "plain loop, training": fmean(each.training_s for each in plain),
        "plain loop, held-out questions right before": plain[0].before,
        "plain loop, held-out questions right after": fmean(each.after for each in plain),
        "plain loop, mean reward of the first step": plain[0].rewards[0],
        "plain loop, mean reward of the last step": fmean(each.rewards[-1] for each in plain),
        "ours, seconds": loop,
        "ours, seconds of the gate": ours["gate_s"],
        "ours, steps": ours["steps"],
        "ours, held-out questions right before": ours["before"],
        "ours, held-out questions right after": ours["after"],
        "ours, mean reward of the first step": ours["first reward"],
        "ours, mean reward of the last step": ours["last reward"],
        "ours, promoted by the gate": ours["promoted"],
        "ours to plain, without the gate": loop / alone,
        "ours to plain, with the gate": (loop + ours["gate_s"]) / alone,
    }
    targets: dict[str, float | Target] = {
        "ours to plain, with the gate": at_most(MOST_TIMES),
        "ours, promoted by the gate": at_least(1),
    }
    spans = ", ".join(f"{each.whole_s:.0f}" for each in plain)
    note = (
        f"{effort.rounds} steps of {effort.questions} questions by {effort.siblings} samples of at most "
        f"{effort.answer_tokens} tokens, prompts of some {plain[0].prompt_tokens} tokens, {effort.held_out} held-out "
        f"questions. The plain loop took {spans} seconds."
    )
    page = PAGE if write else None
    report("demo-real, recipe", figures, targets, page=page, note=note if write else "", part=NAME)
