"""Artifacts of the log as models that are called by name: `ck-3f9a1c22@212` or `base@0`, beside the champion."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from agents.models.local.network import BASE
from agents.models.model import Model
from eventlog.events import artifact_name
from projections.engine.views import Views

from ..errors import Unknown
from ..house import House
from ..queries.champion import champion_history
from ..queries.checkpoints import find_weights
from .deployments import Load
from .errors import UnknownModel

_NAME: Final = re.compile(r"(?:(?P<base>base)|ck-(?P<digest>[0-9a-f]{8,64}))@(?P<upto>0|[1-9][0-9]{0,17})")
_EXPECTED: Final = "champion, base@N, or ck-DIGEST@N of a checkpoint on the served base, with N up to the log's head"


def names_artifact(name: str) -> bool:
    """True for the name of an artifact, such as `base@0`."""
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class NamedModels:
    """The artifacts on one base that can be called by name. Their weights decide which model answers."""

    house: House
    base: str
    load: Load

    def weights_of(self, name: str) -> str:
        """The weights of an artifact's name: `base`, or a checkpoint's digest. Raises UnknownModel."""
        named, views = _NAME.fullmatch(name), self.house.views()
        if named is None or int(named["upto"]) > views.upto:
            raise UnknownModel(actual=name, expected=_EXPECTED)
        return BASE if named["base"] else self.served_weights(views, named["digest"], name)

    def served_weights(self, views: Views, weights: str, name: str) -> str:
        """The weights of a digest or its beginning. Raises UnknownModel, with `name`, if they are not on this base."""
        if weights == BASE:
            return BASE
        try:
            state = find_weights(views, weights)
        except Unknown as problem:
            raise UnknownModel(actual=name, expected=_EXPECTED) from problem
        if state.is_base or state.base != self.base:
            raise UnknownModel(actual=f"{name}, which is of the base {state.base[:8]}", expected=_EXPECTED)
        return state.checkpoint

    def model_of(self, name: str) -> Model:
        """The model of an artifact, loaded at its first use. Raises UnknownModel, and what `load` does."""
        return self.load(self.weights_of(name))

    def list_names(self) -> tuple[str, ...]:
        """Names of the artifacts on this base that were ever champion, the latest first."""
        history = champion_history(self.house.views()).history
        pointed = (each.state.pointed_artifact() for each in reversed(history) if each.state is not None)
        found: dict[str, None] = {}
        for artifact in pointed:
            name = artifact_name(artifact.weights, artifact.memory.upto)
            with suppress(UnknownModel):
                self.weights_of(name)
                found.setdefault(name)
        return tuple(found)
