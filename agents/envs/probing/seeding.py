"""Probes of seeds and instances: seeds make instances, resets clear them, instances are isolated."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

from .answers import FEWEST_SEEDS, aim_of, is_one_answer
from .target import Failed, Skipped, Target


def two_seeds(target: Target) -> str:
    """Check that one seed always gives one state, and that two seeds differ in state and in some answer.

    Instances are made one after another, so that a site of one instance can be asked. Tasks whose answer is the same at
    both seeds are named, and noted in `target.alike`: for them N seeds are one task. Without a known solution, answers
    are known where the suite's plan passes.
    """
    found: dict[str, int] = {}
    for seed in target.seeds:
        first, second = _start_of(target, seed), _start_of(target, seed)
        if first != second:
            raise Failed(f"seed {seed} made two different states")
        if first in found:
            raise Failed(f"seeds {found[first]} and {seed} made the same state: the seed is not taken")
        found[first] = seed
    if len(target.seeds) == 1:
        raise Skipped("one seed was given; two are needed to be compared")
    if target.solve is None:
        return f"{len(found)} seeds, {len(found)} states; {_compare_by_plans(target)}"
    answer, other = target.seeds[:2]
    alike = [task.task_id for task in target.graded_by_deeds if _is_passed_by(target, task.task_id, other, answer)]
    if alike and len(alike) == len(target.graded_by_deeds):
        raise Failed(f"{alike[0]} at seed {other} is passed by the answer of seed {answer}, and so is every task")
    if alike:
        target.alike.update(alike)
        return f"{len(found)} seeds, {len(found)} states; the same answer passes at every seed: {', '.join(alike)}"
    return f"{len(found)} seeds, {len(found)} states; no answer of seed {answer} passes at seed {other}"


def _compare_by_plans(target: Target) -> str:
    """Note the tasks whose plan passes at every seed by the same changes, and say what was compared."""
    if not target.plays:
        return "answers are not compared, since none is known by its seed and no plan by a suite"
    if len(target.seeds) < FEWEST_SEEDS:
        return f"answers are not compared, since plans have to pass at {FEWEST_SEEDS} seeds"
    aims = {task.task_id: _aims_by_plan(target, task.task_id) for task in target.graded_by_deeds}
    alike = [task_id for task_id, found in aims.items() if is_one_answer(found)]
    target.alike.update(alike)
    varied = [task_id for task_id, found in aims.items() if len(set(found.values())) > 1]
    told = f"plans show the answers of {len(alike) + len(varied)} of {len(aims)} tasks"
    return f"{told}; the same changes pass at every seed: {', '.join(alike)}" if alike else told


def _aims_by_plan(target: Target, task_id: str) -> dict[int, str]:
    """Changes by the suite's plan where it passed, by seed; no further seed is asked once nothing can be shown."""
    play, found = target.plays.get(task_id), dict[int, str]()
    if play is None:
        return found
    for seed in target.seeds:
        with target.new_instance(seed) as instance:
            with target.visit(instance) as session:
                play(session)
            passed = target.environment.oracle(instance, task_id).passed
            aim = aim_of(target.environment.mutations(instance)) if passed else None
        if aim is None:
            break
        found[seed] = aim
        if len(set(found.values())) > 1:
            break
    return found


def _start_of(target: Target, seed: int) -> str:
    with target.new_instance(seed) as instance:
        return target.fingerprint(instance)


def _is_passed_by(target: Target, task_id: str, seed: int, answer: int) -> bool:
    """True if a task at one seed is passed by the answer of another seed."""
    with target.new_instance(seed) as instance:
        return target.solve_task(instance, task_id, answer).passed


def repeat_without_reset(target: Target) -> str:
    """Check that changes stay until a reset and are gone after it, so that used instances differ from fresh ones."""
    seed, env = target.seeds[0], target.environment
    with target.new_instance(seed) as instance:
        start = target.fingerprint(instance)
        target.use_instance(instance, seed)
        used, changes = target.fingerprint(instance), env.mutations(instance)
        if used == start:
            raise Failed("a used instance has the fingerprint of a fresh one: a second run on it would go unnoticed")
        target.looked_at(instance)
        if (target.fingerprint(instance), env.mutations(instance)) != (used, changes):
            raise Failed("what was done to an instance is gone without a reset")
        env.reset(seed, instance=instance)
        if target.fingerprint(instance) != start or env.mutations(instance):
            raise Failed("after a reset the instance is not as it was at first: state leaks over it")
        task = (target.graded_by_deeds or target.tasks)[0].task_id
        if target.is_solved and not target.solve_task(instance, task, seed).passed:
            raise Failed(f"after a reset the known solution of {task} fails: something of the run before it is left")
    return "what was done stays until the reset, and is gone after it"


def side_by_side(target: Target) -> str:
    """Check that changes, a reset and a close of one instance do not affect another instance of the same seed."""
    seed, env = target.seeds[0], target.environment
    if target.one_instance:
        raise Skipped("the site has one instance: its runs take turns under a lease, each reset ending the one before")
    with target.new_instance(seed) as one:
        with target.new_instance(seed) as two:
            fresh = env.state(two)
            target.use_instance(one, seed)
            if env.state(two) != fresh or env.mutations(two):
                raise Failed("what was done to one instance is seen in another")
            target.use_instance(two, seed)
            used = env.state(two)
            env.reset(seed, instance=one)
            if env.state(two) != used:
                raise Failed("the reset of one instance changed another")
            kept = env.state(one)
        if env.state(one) != kept:
            raise Failed("closing one instance changed another")
    return "deeds, a reset and a close in one instance are not seen in the other"


def mutations_by_id(target: Target) -> str:
    """Check that mutation ids ascend, `since` filters by id, listed mutations stay listed, and a reset clears them."""
    seed, env = target.seeds[0], target.environment
    with target.new_instance(seed) as instance:
        if env.mutations(instance):
            raise Failed("a fresh instance has mutations")
        target.use_instance(instance, seed)
        first = env.mutations(instance)
        with suppress(Skipped):  # a task of one action is over by now
            target.use_instance(instance, seed, turn=1)
        every = env.mutations(instance)
        if every[: len(first)] != first:
            raise Failed("a mutation that was listed before is not listed any more, or is another one")
        ids = [mutation.id for mutation in every]
        if any(later <= earlier for earlier, later in pairwise(ids)):
            raise Failed(f"the ids {ids} do not ascend")
        for place, known in enumerate(ids, 1):
            if env.mutations(instance, known) != every[place:]:
                raise Failed(f"since {known} does not give the mutations above that id")
        env.reset(seed, instance=instance)
        if env.mutations(instance):
            raise Failed("mutations are left after a reset")
    return f"{len(every)} mutations, in order of their ids, and none after a reset"
