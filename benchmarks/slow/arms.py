"""The arms that are compared: what each trains on, from where, and how often.

Every arm but the control trains on runs of the policy itself. The loop goes on from one stage to the next: its last
stage takes the ratio against what was logged, so the policy that it begins with plays once more.
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
"""What each stage takes of the policy's runs."""


@dataclass
class Workshop:
    """What arms are made with. `shown` is the log of demonstrations, `house` that of the policy's own runs.

    `datasets` are what each arm trains on, and each policy of the loop once more. Weights are drawn from by one thread
    alone, and trained by any.
    """

    scene: Scene
    shown: House
    house: House
    warmed: Warmed
    host: Host
    folder: Path
    datasets: dict[str, DatasetState] = field(init=False)

    def __post_init__(self) -> None:
        """The control has what it trains on before anything is played."""
        self.datasets = {CONTROL: self.warmed.dataset}

    def sample(self) -> None:
        """Let the warmed policy play groups of siblings, and freeze what each stage trains on."""
        self._play("train", "base", self.scene.effort.seeds.training)
        self.datasets |= {stage: self._frozen(stage, "train", stage) for stage in QUERIES}

    def from_base(self, stage: str, seed: int) -> Saved:
        """One stage from the base."""
        house = self.shown if stage == CONTROL else self.house
        return trained(house, self._stage(stage, stage, seed, None))

    def on_with_pairs(self, seed: int, parent: Saved) -> Saved:
        """DPO from a checkpoint, on pairs of what the warmed policy played."""
        return trained(self.house, self._stage("dpo", "dpo", seed, parent))

    def again(self, seed: int, parent: Saved) -> Stage:
        """Let a checkpoint play groups of siblings: the stage of GRPO that goes on from it."""
        name = f"again-{seed}"
        self._play(name, parent.digest, self.scene.effort.seeds.training_again, parent)
        self.datasets[name] = self._frozen("grpo", name, f"grpo {seed}")
        return self._stage(name, "grpo", seed, parent)

    def on_from(self, stage: Stage) -> Saved:
        """A stage of the loop."""
        return trained(self.house, stage)

    def on_with_demonstrations(self, seed: int, parent: Saved) -> Saved:
        """The control, as many steps on as the loop goes on from SFT."""
        effort, stage = self.scene.effort, self._stage(CONTROL, CONTROL, seed, parent)
        steps = effort.grpo.steps + (effort.dpo.steps if effort.dpo_in_loop else 0)
        return trained(self.shown, replace(stage, config=stage.config.model_copy(update={"steps": steps})))

    def _stage(self, dataset: str, stage: str, seed: int, parent: Saved | None) -> Stage:
        config = config_of(self.scene.effort, stage, seed)
        return Stage(self.datasets[dataset], self.warmed.base, None if parent is None else parent.state, config)

    def _frozen(self, stage: str, sweep: str, title: str) -> DatasetState:
        """What a stage takes of a sweep, which both sites played."""
        query = QUERIES[stage].model_copy(update={"sweep": tuple(sorted(f"{sweep}-{site}" for site in TASKS))})
        return frozen(self.house, query, title)

    def held_out(self, name: str, saved: Saved | None) -> Outcomes:
        """What a policy passes of instances that nothing was trained on; None: the warmed one."""
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
    """The settings of a stage with a training seed. The control's are those of sft."""
    found: dict[str, Config] = {CONTROL: effort.sft, "sft": effort.sft, "dpo": effort.dpo, "grpo": effort.grpo}
    return found[stage].model_copy(update={"seed": seed})


def opened(base: Warmed) -> closing[Host]:
    """The warmed base in this process, for as long as it is drawn from."""
    return closing(Host(base.base.path))
