"""The arms that are compared: what each trains on, from where, and how often.

Every arm but the control trains on runs of the policy itself. The loop goes on from one stage to the next: its second
stage takes the ratio against what was logged, so the policy that it begins with plays once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from agents.models.local.host import Host
from api.cli.output import bar
from api.house import House
from api.training import Stage
from benchmarks.log.server import Server
from eventlog.events import DpoQuery, GrpoQuery, Query, SftQuery
from projections.checkpoints import DatasetState
from trainer.request import Config

from .effort import Effort, by_address
from .policies import policy
from .stage import Outcomes, Scene, log_of
from .training import Saved, adopt, frozen, side_by_side, trained
from .warmed import Warmed

CONTROL: Final = "control"
LOOP: Final = "loop"
SINGLE: Final = (CONTROL, "sft", "dpo", "grpo")
QUERIES: Final[Mapping[str, Query]] = {
    "sft": SftQuery(runs="policy"),
    "dpo": DpoQuery(),
    "grpo": GrpoQuery(reward="score"),
}
"""What each stage takes of the policy's runs."""


@dataclass
class Workshop:
    """What arms are made with. `shown` is the log of demonstrations, `house` that of the policy's own runs.

    `datasets` are what each arm trains on.
    """

    scene: Scene
    server: Server
    shown: House
    house: House
    warmed: Warmed
    host: Host
    folder: Path
    datasets: dict[str, DatasetState] = field(default_factory=dict)

    def sample(self) -> None:
        """Let the warmed policy play groups of siblings, and freeze what each stage trains on."""
        self._play(self.house, "train", "base", self.scene.effort.seeds.training)
        self.datasets = {CONTROL: self.warmed.dataset}
        self.datasets |= {stage: frozen(self.house, query, stage) for stage, query in QUERIES.items()}

    def train(self, arm: str, seed: int) -> Saved:
        """One stage from the base."""
        house = self.shown if arm == CONTROL else self.house
        config = config_of(self.scene.effort, arm, seed)
        return trained(house, Stage(self.datasets[arm], self.warmed.base, None, config))

    def go_on(self, seeds: Sequence[int], parents: Sequence[Saved]) -> list[Saved]:
        """GRPO on from each checkpoint, on runs of its own: they are in a log that holds nothing else."""
        with ExitStack() as stack:
            further = [
                self._again(seed, parent, stack.enter_context(log_of(self.server, f"loop_{seed}", self.folder)))
                for seed, parent in zip(seeds, parents, strict=True)
            ]
            calls = [partial(trained, house, stage) for house, stage in further]
            with bar("training further", len(calls)) as advance:
                return side_by_side(calls, self.scene.effort.processes, advance)

    def _again(self, seed: int, parent: Saved, house: House) -> tuple[House, Stage]:
        """Let a checkpoint play groups of siblings: the stage that goes on from it."""
        adopt(house, parent, self.house)
        self._play(house, "again", parent.digest, self.scene.effort.seeds.training_again, parent)
        dataset, config = frozen(house, QUERIES["grpo"], f"grpo {seed}"), config_of(self.scene.effort, "grpo", seed)
        return house, Stage(dataset, self.warmed.base, parent.state, config)

    def held_out(self, name: str, saved: Saved | None) -> Outcomes:
        """What a policy passes of instances that nothing was trained on; None: the warmed one."""
        weights = "base" if saved is None else saved.digest
        return self._play(self.house, f"held-{name}", weights, self.scene.effort.seeds.held_out, saved, siblings=1)

    def _play(
        self,
        house: House,
        name: str,
        weights: str,
        seeds: tuple[int, ...],
        saved: Saved | None = None,
        siblings: int | None = None,
    ) -> Outcomes:
        templates = {site: by_address(site, told) for site, told in self.scene.instructions.items()}
        model = self.host.base() if saved is None else self.host.adapted(weights, lambda _: saved.folder)
        many = self.scene.effort.siblings if siblings is None else siblings
        return self.scene.sweep(house, name, templates, seeds, policy(self.scene, model), siblings=many)


def config_of(effort: Effort, arm: str, seed: int) -> Config:
    """The settings of an arm with a training seed. The control's are those of sft."""
    found: dict[str, Config] = {CONTROL: effort.sft, "sft": effort.sft, "dpo": effort.dpo, "grpo": effort.grpo}
    return found[arm].model_copy(update={"seed": seed})


def opened(base: Warmed) -> closing[Host]:
    """The warmed base in this process, for as long as it is drawn from."""
    return closing(Host(base.base.path))
