"""The arms that are compared: what each trains on, from where, and how often.

Every arm but the control trains on runs of the policy itself. The loop goes on from one stage to the next: its second
stage takes the ratio against what was logged, so the policy that it begins with plays once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agents.models.local.host import Host
from api.cli.output import TerminalReporter
from api.house import House
from benchmarks.log.server import Server
from eventlog.events import DpoQuery, GrpoQuery, Query, SftQuery
from trainer.request import Config, DatasetRef, ParentRef, Request

from .effort import Effort, by_address
from .policies import policy
from .stage import Outcomes, Scene, log_of
from .training import Saved, frozen, trained
from .warmed import Warmed

CONTROL: Final = "control"
LOOP: Final = "loop"
SINGLE: Final = (CONTROL, "sft", "dpo", "grpo")
QUERIES: Final[Mapping[str, Query]] = {
    "sft": SftQuery(runs="policy", best_of_group=True),
    "dpo": DpoQuery(),
    "grpo": GrpoQuery(reward="score"),
}
"""What each stage takes of the policy's runs."""


@dataclass
class Workshop:
    """What arms are made with. `datasets` are those of the base's own runs, by arm."""

    scene: Scene
    server: Server
    house: House
    warmed: Warmed
    host: Host
    folder: Path
    datasets: dict[str, DatasetRef] = field(default_factory=dict)

    def sample(self) -> None:
        """Let the warmed policy play groups of siblings, and freeze what each stage trains on."""
        self._play(self.house, "train", "base", self.scene.effort.seeds.training)
        self.datasets = {CONTROL: self.warmed.dataset}
        upto = self.house.views().upto
        for stage, query in QUERIES.items():
            self.datasets[stage], made = frozen(self.house, query, self.folder, stage, upto)
            refused = ", ".join(f"{item.runs} {item.reason}" for item in made.refused) or "none"
            TerminalReporter().say(f"{stage}: {made.height} rows of {made.groups} groups; refused: {refused}")

    def train(self, arm: str, seed: int) -> Saved:
        """One stage from the base."""
        return self._trained(self.datasets[arm], config_of(self.scene.effort, arm, seed), None)

    def go_on(self, seed: int, parent: Saved) -> Saved:
        """GRPO on from a checkpoint, on runs of its own: they are in a log that holds nothing else."""
        with log_of(self.server, f"loop_{seed}", self.folder) as house:
            self._play(house, "again", parent.digest, self.scene.effort.seeds.training_again, parent)
            dataset, _ = frozen(house, QUERIES["grpo"], self.folder, f"grpo-{seed}", house.views().upto)
        return self._trained(dataset, config_of(self.scene.effort, "grpo", seed), parent)

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

    def _trained(self, dataset: DatasetRef, config: Config, parent: Saved | None) -> Saved:
        return trained(
            Request(
                dataset=dataset,
                base=str(self.warmed.base.path),
                base_digest=self.warmed.base.digest,
                parent=None if parent is None else ParentRef(path=str(parent.folder), digest=parent.digest),
                out=str(self.folder / "checkpoints"),
                config=config,
            )
        )


def config_of(effort: Effort, arm: str, seed: int) -> Config:
    """The settings of an arm with a training seed. The control's are those of sft."""
    found: dict[str, Config] = {CONTROL: effort.sft, "sft": effort.sft, "dpo": effort.dpo, "grpo": effort.grpo}
    return found[arm].model_copy(update={"seed": seed})


def opened(base: Warmed) -> closing[Host]:
    """The warmed base in this process, for as long as it is drawn from."""
    return closing(Host(base.base.path))
