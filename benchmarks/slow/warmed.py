"""Warms up a small base model on demonstrations until its success is in a band that leaves room for improvement.

The result depends only on the demonstrations, sizes and settings, so it is cached under a digest of these.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from agents.executors.demonstration import Demonstrator
from agents.models.local.host import Host
from api.cli.output import TerminalReporter
from api.datasets import freeze
from api.datasets.demonstrations import keep_tokens
from api.house import House
from api.training.first_bases import words_of
from api.training.stages import Stage
from eventlog.chain import digest
from eventlog.events import SftQuery, WarmupConfig
from eventlog.store import Position
from eventlog.weights_folder import Base, read_base
from projections.frozen_datasets import DatasetState
from projections.runs import DEMONSTRATION, RUNS
from trainer.rows import rows_digest
from trainer.tiny import make_tiny

from .effort import Effort, by_address, by_link
from .policies import policy
from .stage import Scene, success
from .training import frozen, trained

DEMONSTRATIONS = ("address", "link")
BASE_SEED = 1
_WARMING = ("first_steps", "first_rate", "warm_steps", "warm_rate", "warm_rows", "most_warm_ups")


@dataclass(frozen=True, slots=True)
class Warmed:
    """The initial policy: its base, its measured success, and its demonstrations.

    `is_kept`: it was cached by an earlier call.
    """

    base: Base
    success: float
    steps: int
    dataset: DatasetState
    is_kept: bool = False


def shown(scene: Scene, house: House) -> None:
    """Play both plans of each task as demonstrations, on separate training seeds."""
    seeds, executor = scene.effort.seeds, Demonstrator(wording="brief")
    for name, plan_of, taken in zip(
        DEMONSTRATIONS, (by_address, by_link), (seeds.by_address, seeds.by_link), strict=True
    ):
        templates = {site: plan_of(site, told) for site, told in scene.instructions.items()}
        scene.sweep(house, name, templates, taken, executor)


def warmed(scene: Scene, house: House, folder: Path) -> Warmed:
    """Return the cached policy, or warm one up. Raises as training and playing."""
    effort, reporter = scene.effort, TerminalReporter()
    runs = {run for run, state in house.views().find(RUNS).items() if state.executor == DEMONSTRATION}
    start = make_tiny(folder / "bases", words_of(house, runs), effort.shape, BASE_SEED)
    tokens = keep_tokens(house.blobs, start.path)
    dataset = frozen(house, SftQuery(runs="demonstration", tokens=tokens), "demonstrations that passed")
    kept = folder / f"warm-{_key(effort, start, _rows(house, dataset))}.json"
    if kept.exists():
        found = json.loads(kept.read_bytes())
        reporter.say(f"using the cached warm-up {found['base'][:12]}, success {found['success']:.2f}")
        base = read_base(house.settings.model_folder / found["base"], found["base"])
        return Warmed(base, found["success"], found["steps"], dataset, is_kept=True)
    result = _searched(scene, house, start, dataset)
    kept.write_text(json.dumps({"base": result.base.digest, "success": result.success, "steps": result.steps}))
    return result


def _searched(scene: Scene, house: House, start: Base, dataset: DatasetState) -> Warmed:
    """Continue the warm-up until the success is high enough; return the policy nearest to the band."""
    effort, reporter = scene.effort, TerminalReporter()
    low, high = effort.band
    base, steps, made = start, 0, list[Warmed]()
    for turn in range(effort.most_warm_ups):
        more = effort.first_steps if turn == 0 else effort.warm_steps
        base, steps = _further(house, effort, base, more, turn, dataset), steps + more
        rate = _measured(scene, house, base, f"warm-{steps}")
        reporter.say(f"success after {steps} warm-up steps: {rate:.2f}")
        made.append(Warmed(base, rate, steps, dataset))
        if rate >= low:
            break
    return min(made, key=lambda each: (max(low - each.success, each.success - high, 0.0), each.steps))


def _further(house: House, effort: Effort, base: Base, steps: int, turn: int, dataset: DatasetState) -> Base:
    rate = effort.warm_rate if turn else effort.first_rate
    config = WarmupConfig(steps=steps, learning_rate=rate, rows_per_step=effort.warm_rows, seed=turn)
    return read_base(trained(house, Stage(dataset, base, None, config)).folder)


def _measured(scene: Scene, house: House, base: Base, name: str) -> float:
    templates = {site: by_address(site, told) for site, told in scene.instructions.items()}
    with closing(Host(base.path)) as host:
        return success(scene.sweep(house, name, templates, scene.effort.seeds.measured, policy(scene, host.base())))


def _rows(house: House, dataset: DatasetState) -> str:
    """Digest of the training tokens, without their log positions."""
    frames: list[pl.DataFrame] = []
    views = house.views(Position(dataset.upto))
    note = lambda rows: frames.append(rows.select("prompt_ids", "completion_ids", "mask"))  # noqa: E731
    freeze.again(dataset, lambda: freeze.make_rows(house.store, house.blobs, views, dataset.parse_query(), note))
    return rows_digest(pl.concat(frames))


def _key(effort: Effort, start: Base, rows: str) -> str:
    """Cache key: a digest of the training tokens and the settings."""
    facts = asdict(effort)
    named = {name: facts[name] for name in _WARMING}
    band, measured = list(map(str, effort.band)), list(effort.seeds.measured)
    return digest([start.digest, rows, {**named, "band": band, "measured": measured}]).hex()[:16]
