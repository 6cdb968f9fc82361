"""The arms that are compared: what each trains on, from where, and how often.

Every arm but the control trains on runs of the policy itself. The whole loop goes on from one stage to the next; where
a stage takes the ratio against what was logged, the policy that it begins with plays once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agents.models.local.host import Host
from api.house import House
from eventlog.events import DpoQuery, GrpoQuery, Query, SftQuery
from trainer.request import Config, DatasetRef, ParentRef, Request

from .effort import Effort, by_address
from .policies import policy
from .stage import Scene
from .training import Saved, frozen, trained
from .warmed import Warmed

CONTROL: Final = "control"
ARMS: Final[Mapping[str, tuple[str, ...]]] = {
    CONTROL: ("demonstrations",),
    "sft": ("sft",),
    "dpo": ("dpo",),
    "grpo": ("grpo",),
    "loop": ("sft", "grpo"),
}
"""The stages of each arm, in order. The control goes on with demonstrations for as many steps as sft takes."""

QUERIES: Final[Mapping[str, Callable[[str | None], Query]]] = {
    "sft": lambda _sweep: SftQuery(runs="policy", best_of_group=True),
    "dpo": lambda _sweep: DpoQuery(),
    "grpo": lambda _sweep: GrpoQuery(reward="score"),
}


@dataclass
class Workshop:
    """What arms are made with. `datasets` are those of the base's own runs, by stage."""

    scene: Scene
    house: House
    warmed: Warmed
    host: Host
    folder: Path
    datasets: dict[str, DatasetRef] = field(default_factory=dict)

    @property
    def effort(self) -> Effort:
        """The sizes."""
        return self.scene.effort

    def sample(self) -> None:
        """Let the warmed policy play groups of siblings, and freeze what each stage trains on."""
        templates = {site: by_address(site, told) for site, told in self.scene.instructions.items()}
        seeds, siblings = self.effort.seeds.training, self.effort.siblings
        own = policy(self.scene, self.host.base())
        self.scene.sweep(self.house, "train", templates, seeds, own, siblings=siblings)
        self.datasets["demonstrations"] = self.warmed.dataset
        upto = self.house.views().upto
        for stage, query_of in QUERIES.items():
            self.datasets[stage], made = frozen(self.house, query_of(None), self.folder, stage, upto)
            self.say(f"{stage}: {made.height} rows of {made.groups} groups, refused {_counts(made.refused)}")

    def train(self, stage: str, seed: int, parent: Saved | None = None) -> Saved:
        """One stage from the base, or on from a checkpoint."""
        request = Request(
            dataset=self.datasets[stage],
            base=str(self.warmed.base.path),
            base_digest=self.warmed.base.digest,
            parent=None if parent is None else ParentRef(path=str(parent.folder), digest=parent.digest),
            out=str(self.folder / "checkpoints"),
            config=_config(self.effort, stage, seed),
        )
        return trained(request)
