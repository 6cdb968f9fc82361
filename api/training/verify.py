"""Verifies a checkpoint by retraining it from the same rows, base, parent and configuration, and comparing digests."""

from __future__ import annotations

import json
from dataclasses import dataclass

from eventlog.weights_folder import MANIFEST, Base
from projections.checkpoints import WeightsState
from projections.trainings import TRAININGS

from ..house import House
from ..locks import training_alone
from ..queries.checkpoints import find_weights
from ..queries.datasets import find_dataset
from ..queries.facts import require
from .stages import Stage, Watch, produce, working_folder

_WARMUP = "warmup.json"


@dataclass(frozen=True, slots=True)
class Retrained:
    """Result of a retraining. `differing` are the manifest fields that differ, none if the checkpoints are equal."""

    checkpoint: str
    actual: str
    differing: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """True if it is the same checkpoint."""
        return self.checkpoint == self.actual


def stage_of(house: House, state: WeightsState, base: Base) -> Stage:
    """The stage that produced a checkpoint."""
    views = house.views()
    parent = None if state.parent is None else find_weights(views, state.parent)
    config = require(views.get(TRAININGS, state.training)).stage_config()
    return Stage(find_dataset(views, state.dataset), base, parent, config)


def retrain(house: House, state: WeightsState, base: Base, watch: Watch) -> Retrained:
    """Retrain a checkpoint's stage without recording it, and compare. Concurrent callers for the same stage block.

    Raises DatasetErased, TrainingEnded.
    """
    stage = stage_of(house, state, base)
    with training_alone(house.engine, stage.name), working_folder(house, stage, "verifying") as folder:
        trained = produce(house, stage, state.upto, folder, watch)
        before = json.loads(house.blobs.get(state.manifest).body)
        after = json.loads((trained.folder / (_WARMUP if state.is_base else MANIFEST)).read_bytes())
    differing = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return Retrained(state.checkpoint, trained.digest, tuple(differing))
