"""Schedules training and play in parallel, so that both cores stay busy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from api.cli.output import TerminalReporter

from .arms import AFTER_SFT, ARMS, CONTROL, LONG_CONTROL, LOOP, Workshop
from .stage import Outcomes
from .training import Saved

Trainings = Mapping[str, list[Future[Saved]]]
"""Futures of the checkpoints of each arm, one for each training seed."""

Results = tuple[dict[str, list[Saved]], dict[str, list[Outcomes]]]
"""The checkpoints of each arm, and their outcomes on held-out instances."""


def trained_and_held_out(workshop: Workshop, *, loop: bool) -> Results:
    """Train and evaluate every arm at every training seed; `loop` adds the loop and its control of equal length.

    Stages are queued in the order in which later stages need them. An error of one stage ends all.
    """
    effort = workshop.scene.effort
    pool = ThreadPoolExecutor(effort.processes)
    try:
        return _held_out(workshop, _begun(workshop, pool, loop=loop))
    finally:
        pool.shutdown(cancel_futures=True)


def _begun(workshop: Workshop, pool: ThreadPoolExecutor, *, loop: bool) -> dict[str, list[Future[Saved]]]:
    """Submit all trainings. The loop's policies sample while other stages train; final stages train last."""
    seeds, has_dpo = workshop.scene.effort.training_seeds, workshop.scene.effort.dpo_in_loop

    def from_base(stage: str) -> list[Future[Saved]]:
        return [pool.submit(workshop.from_base, stage, seed) for seed in seeds]

    def after(stage: Callable[[int, Saved], Saved], parents: Sequence[Future[Saved]]) -> list[Future[Saved]]:
        """Submit a stage that waits inside the pool for its parent, which was submitted earlier."""

        def made(seed: int, parent: Future[Saved]) -> Saved:
            return stage(seed, parent.result())

        return [pool.submit(made, seed, parent) for seed, parent in zip(seeds, parents, strict=True)]

    found = {CONTROL: from_base(CONTROL)}
    workshop.sample()
    found["sft"] = from_base("sft")
    found |= {AFTER_SFT: after(workshop.on_with_pairs, found["sft"])} if has_dpo else {"dpo": from_base("dpo")}
    if loop:
        parents = zip(seeds, found[AFTER_SFT if has_dpo else "sft"], strict=True)
        found[LOOP] = [pool.submit(workshop.on_from, workshop.again(seed, each.result())) for seed, each in parents]
    found["grpo"] = from_base("grpo")
    if loop:
        found[LONG_CONTROL] = after(workshop.on_with_demonstrations, found[CONTROL])
    return found


def _held_out(workshop: Workshop, trainings: Trainings) -> Results:
    """Evaluate checkpoints on held-out instances as they become available."""
    seeds, reporter = workshop.scene.effort.training_seeds, TerminalReporter()
    saved: dict[str, list[Saved]] = {arm: [] for arm in trainings}
    after: dict[str, list[Outcomes]] = {arm: [] for arm in trainings}
    for arm, number, each in _in_turn(trainings):
        saved[arm].append(each)
        after[arm].append(workshop.held_out(f"{arm.replace(' ', '-')}-{seeds[number]}", each))
        left = sum(not future.done() for own in trainings.values() for future in own)
        reporter.say(f"{arm}, training seed {seeds[number]}: {each.digest[:12]}; {left} stages are still training")
    return {arm: saved[arm] for arm in ARMS if arm in saved}, {arm: after[arm] for arm in ARMS if arm in after}


def _in_turn(trainings: Trainings) -> Iterator[tuple[str, int, Saved]]:
    """Yield each checkpoint with its arm and the index of its training seed, waiting for it, arm by arm."""
    for arm, own in trainings.items():
        for number, future in enumerate(own):
            yield arm, number, future.result()
