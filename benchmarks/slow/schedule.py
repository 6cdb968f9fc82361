"""What is trained and played when: stages train beside what is played, so that both cores are busy to the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from api.cli.output import TerminalReporter

from .arms import AFTER_SFT, ARMS, CONTROL, LONG_CONTROL, LOOP, Workshop
from .stage import Outcomes
from .training import Saved

Trainings = Mapping[str, list[Future[Saved]]]
"""The checkpoints of each arm, one for each training seed, as they come."""

Results = tuple[dict[str, list[Saved]], dict[str, list[Outcomes]]]
"""The checkpoints of each arm, and what each of them passes of what was held out."""


def trained_and_held_out(workshop: Workshop, *, loop: bool) -> Results:
    """Every arm at every training seed, with the loop and the control as long as it; raises what training raises.

    Stages wait in the order in which what follows needs them. What one of them raised ends all.
    """
    effort = workshop.scene.effort
    pool = ThreadPoolExecutor(effort.processes)
    try:
        return _held_out(workshop, _begun(workshop, pool, loop=loop))
    finally:
        pool.shutdown(cancel_futures=True)


def _begun(workshop: Workshop, pool: ThreadPoolExecutor, *, loop: bool) -> dict[str, list[Future[Saved]]]:
    """The loop's policies play again while others train, and what nothing waits for trains last."""
    seeds, has_dpo = workshop.scene.effort.training_seeds, workshop.scene.effort.dpo_in_loop

    def from_base(stage: str) -> list[Future[Saved]]:
        return [pool.submit(workshop.from_base, stage, seed) for seed in seeds]

    def after(stage: Callable[[int, Saved], Saved], parents: Sequence[Future[Saved]]) -> list[Future[Saved]]:
        """Each waits inside the pool for its parent, which was submitted before it."""

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
    """What passes of instances that nothing was trained on, as checkpoints are there."""
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
    """Each checkpoint with its arm and the place of its training seed, arm by arm, waited for."""
    for arm, own in trainings.items():
        for number, future in enumerate(own):
            yield arm, number, future.result()
