"""Training arms: their stages, data and starting checkpoints.

Every arm but the control trains on runs of the policy itself. The stages of the loop continue from each other. The
last stage needs the logged log-probabilities of its initial policy, so this policy samples new runs first.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from agents.models.local.host import Host
from api.house import House
from api.training.stages import Stage
from eventlog.events import DpoQuery, GrpoQuery, Query, SftQuery
from projections.frozen_datasets import DatasetState
from trainer.request import Config

from .effort import TASKS, Effort, by_address
from .policies import policy
from .stage import Outcomes, Scene
from .training import Saved, frozen, trained
from .warmed import Warmed

CONTROL: Final = "control"
LONG_CONTROL: Final = "control as long as the loop"
CONTROLS: Final = frozenset({CONTROL, LONG_CONTROL})
LOOP: Final = "loop"
AFTER_SFT: Final = "sft and dpo"
ARMS: Final = (CONTROL, "sft", "dpo", AFTER_SFT, "grpo", LOOP, LONG_CONTROL)
QUERIES: Final[Mapping[str, Query]] = {
    "sft": SftQuery(runs="policy"),
    "dpo": DpoQuery(),
    "grpo": GrpoQuery(reward="score"),
}
"""Query of each stage on the policy's runs."""


@dataclass
class Workshop:
    """Context of the arms. `shown` is the log of demonstrations, `house` the log of the policy's runs.

    `datasets` are the training datasets of each arm and of each policy of the loop. Only one thread may sample from
    the weights; any thread may train.
    """

    scene: Scene
    shown: House
    house: House
    warmed: Warmed
    host: Host
    folder: Path
    datasets: dict[str, DatasetState] = field(init=False)

    def __post_init__(self) -> None:
        """Set the control's dataset, which exists before any run."""
        self.datasets = {CONTROL: self.warmed.dataset}

    def sample(self) -> None:
        """Sample groups of siblings with the warmed policy, and freeze the dataset of each stage."""
        self._play("train", "base", self.scene.effort.seeds.training)
        self.datasets |= {stage: self._frozen(stage, "train", stage) for stage in QUERIES}

    def from_base(self, stage: str, seed: int) -> Saved:
        """Train one stage from the base."""
        house = self.shown if stage == CONTROL else self.house
        return trained(house, self._stage(stage, stage, seed, None))

    def on_with_pairs(self, seed: int, parent: Saved) -> Saved:
        """Train DPO from a checkpoint, on pairs of the warmed policy's runs."""
        return trained(self.house, self._stage("dpo", "dpo", seed, parent))

    def again(self, seed: int, parent: Saved) -> Stage:
        """Sample groups of siblings with a checkpoint; return the GRPO stage that continues from it."""
        name = f"again-{seed}"
        self._play(name, parent.digest, self.scene.effort.seeds.training_again, parent)
        self.datasets[name] = self._frozen("grpo", name, f"grpo {seed}")
        return self._stage(name, "grpo", seed, parent)

    def on_from(self, stage: Stage) -> Saved:
        """Train a stage of the loop."""
        return trained(self.house, stage)

    def on_with_demonstrations(self, seed: int, parent: Saved) -> Saved:
        """Train the control on demonstrations, for as many further steps as the loop trains after SFT."""
        effort, stage = self.scene.effort, self._stage(CONTROL, CONTROL, seed, parent)
        steps = effort.grpo.steps + (effort.dpo.steps if effort.dpo_in_loop else 0)
        return trained(self.shown, replace(stage, config=stage.config.model_copy(update={"steps": steps})))

    def _stage(self, dataset: str, stage: str, seed: int, parent: Saved | None) -> Stage:
        config = config_of(self.scene.effort, stage, seed)
        return Stage(self.datasets[dataset], self.warmed.base, None if parent is None else parent.state, config)

    def _frozen(self, stage: str, sweep: str, title: str) -> DatasetState:
        """Freeze the dataset of a stage from a sweep over both sites."""
        query = QUERIES[stage].model_copy(update={"sweep": tuple(sorted(f"{sweep}-{site}" for site in TASKS))})
        return frozen(self.house, query, title)

    def held_out(self, name: str, saved: Saved | None) -> Outcomes:
        """Outcomes of a policy on held-out instances; None: the warmed policy."""
        weights = "base" if saved is None else saved.digest
        return self._play(f"held-{name}", weights, self.scene.effort.seeds.held_out, saved, siblings=1)

    def _play(
        self,
        name: str,
        weights: str,
        seeds: tuple[int, ...],
        saved: Saved | None = None,
        siblings: int | None = None,
    ) -> Outcomes:
        templates = {site: by_address(site, told) for site, told in self.scene.instructions.items()}
        model = self.host.base() if saved is None else self.host.adapted_model(weights, lambda _: saved.folder)
        many = self.scene.effort.siblings if siblings is None else siblings
        return self.scene.sweep(self.house, name, templates, seeds, policy(self.scene, model), siblings=many)


def config_of(effort: Effort, stage: str, seed: int) -> Config:
    """Configuration of a stage with a training seed. The control uses that of sft."""
    found: dict[str, Config] = {CONTROL: effort.sft, "sft": effort.sft, "dpo": effort.dpo, "grpo": effort.grpo}
    return found[stage].model_copy(update={"seed": seed})


def opened(base: Warmed) -> closing[Host]:
    """Load the warmed base into this process for sampling; closing it unloads it."""
    return closing(Host(base.base.path))
