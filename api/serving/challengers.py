"""Challengers by reference: what lies at a place is identified by its digest, and refused unless the log knows it.

A reference is a path, or `volume:/path` below a mount of FLYWHEEL_MOUNTS. At it lies a PEFT folder with its manifest,
or a file of a published GGUF form. What is judged is the checkpoint that the log knows, so that a promoted one can be
loaded by its digest everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from agents.executors.local import FolderOf
from agents.models.llamacpp.network import PREFIX as LLAMACPP
from agents.models.llamacpp.network import Kind
from agents.models.local.network import PREFIX as TRANSFORMERS
from agents.models.servers.errors import ChallengerUnfit, ReferenceMissing
from agents.models.servers.plan import Artefact, Challenger, ServedBase, Server, ServingPlan, find_mounted, plan_serving
from eventlog.errors import CheckpointMissing
from eventlog.weights_folder import DESCRIPTION, file_digest, folder_digest, read_base, read_checkpoint
from projections.checkpoints import WEIGHTS, PlaceState, WeightsState
from projections.engine.views import Views
from trainer.gguf_names import ADAPTERS

from ..house import House
from ..settings import Settings
from ..training.weights import base_of, folders_of
from .conversion import FOLDER, Precision, adopt_file
from .errors import ReferenceChanged

_MERGED: Final[Mapping[str, Precision]] = {"gguf-f32": "f32", "gguf-f16": "f16", "gguf-q8_0": "q8_0"}
_ADAPTER: Final = "gguf-adapter"


@dataclass(frozen=True, slots=True)
class ReferencedWeights:
    """Weights that a reference leads to: the checkpoint's digest, the model on which it plays, and how it is served.

    `settings` are those of the process, with the base in the precision of a merged challenger: both arms of an
    evaluation then compute alike.
    """

    weights: str
    model: str
    plan: ServingPlan
    settings: Settings
    folder_of: FolderOf


def find_challenger(house: House, wanted: Challenger, model: str | None = None) -> ReferencedWeights:
    """The weights at a challenger's reference, checked against the log; nothing is loaded.

    `model` is `transformers:FOLDER`, `llamacpp:FOLDER`, or that of an endpoint which loads adapters. Without one, the
    checkpoint's base is found by its digest and llama.cpp serves it. Raises ReferenceMissing and its kin,
    ReferenceChanged, ChallengerUnfit, BaseDiffers, CheckpointMissing, CheckpointAltered, NoBase.
    """
    reference = wanted.adapter or wanted.model
    if reference is None:
        raise ChallengerUnfit(actual="no reference", expected="/path or volume:/path")
    settings, mounts = house.settings, {name: PurePosixPath(place) for name, place in house.settings.mounts.items()}
    path = Path(find_mounted(reference, mounts))
    views = house.views()
    state = _state_at(views, reference, path) if path.exists() else None
    base = ServedBase("base", "llama.cpp")
    if state is not None:
        chosen = _chosen_model(house, state, model)
        base, model = _served_base(house, state, chosen), chosen
    cache = PurePosixPath(settings.model_folder / FOLDER)
    plan = plan_serving(base, wanted, mounts, look_up, cache)  # raises where nothing lies at the reference
    if state is None or model is None:
        raise ChallengerUnfit(actual=f"the reference {reference}", expected="a checkpoint of the log")
    folder_of: FolderOf = folders_of(house)
    if path.is_file():
        place = _published_place(state, path)
        kind: Kind = "adapter" if place.form == _ADAPTER else "merged"
        file = adopt_file(settings.model_folder, path, state.checkpoint, state.base, kind)
        settings = settings.model_copy(update={"model_gguf": _MERGED.get(place.form, settings.model_gguf)})
        return ReferencedWeights(state.checkpoint, model, plan, settings, _instead(folder_of, state.checkpoint, file))
    return ReferencedWeights(state.checkpoint, model, plan, settings, _instead(folder_of, state.checkpoint, path))


def find_referenced(house: House, wanted: Challenger) -> str:
    """Digest of the checkpoint at a challenger's reference, by the log; what would serve it is not looked at.

    Raises ReferenceMissing and its kin, ReferenceChanged, ChallengerUnfit, CheckpointMissing, CheckpointAltered.
    """
    reference, mounts = wanted.adapter or wanted.model, house.settings.mounts
    if reference is None:
        raise ChallengerUnfit(actual="no reference", expected="/path or volume:/path")
    path = Path(find_mounted(reference, {name: PurePosixPath(place) for name, place in mounts.items()}))
    if not path.exists():
        raise ReferenceMissing(actual=reference, path=path)
    return _state_at(house.views(), reference, path).checkpoint


def refuse_unknown_adapter(house: House) -> None:
    """Raise what `find_referenced` does for the adapter of FLYWHEEL_LORA_ADAPTER, before a server listens."""
    if house.settings.lora_adapter is not None:
        find_referenced(house, Challenger(adapter=house.settings.lora_adapter))


def look_up(path: PurePosixPath) -> Artefact | None:
    """The file or folder at a path of this machine, with the rank of a PEFT adapter."""
    place = Path(path)
    if place.is_file():
        return Artefact(is_folder=False, digest=file_digest(place))
    if not place.is_dir():
        return None
    try:
        rank = int(json.loads((place / DESCRIPTION).read_bytes())["r"])
    except (OSError, ValueError, LookupError, TypeError):
        rank = None
    return Artefact(is_folder=True, digest=folder_digest(place), rank=rank)


def _state_at(views: Views, reference: str, path: Path) -> WeightsState:
    """The checkpoint of the log that lies at a path. Raises ReferenceChanged, CheckpointAltered, CheckpointMissing."""
    known = views.find(WEIGHTS)
    if path.is_dir():
        found = read_checkpoint(path)
        found.check()
        state = known.get(found.digest)
        actual, expected = f"a checkpoint with the digest {found.digest}", "the digest of a checkpoint of the log"
    else:
        digest = folder_digest(path.parent)
        states = (each for each in known.values() if any(place.digest == digest for place in each.published))
        state = next(states, None)
        recorded = [
            place.digest for each in known.values() for place in each.published if place.place == str(path.parent)
        ]
        actual, expected = f"files with the digest {digest}", ", ".join(recorded) or "files that were published"
    if state is None or state.is_base:
        raise ReferenceChanged(reference=reference, path=path, actual=actual, expected=expected)
    return state


def _published_place(state: WeightsState, path: Path) -> PlaceState:
    """The published folder of the file at a path. Raises CheckpointMissing."""
    digest = folder_digest(path.parent)
    found = next((place for place in state.published if place.digest == digest), None)
    if found is None:
        raise CheckpointMissing(path=path, actual=f"its folder changed to {digest}")
    return found


def _chosen_model(house: House, state: WeightsState, model: str | None) -> str:
    named = model if model is not None else house.settings.model
    if named is not None and (named.startswith((LLAMACPP, TRANSFORMERS)) or house.settings.model_base is not None):
        return named
    return f"{LLAMACPP}{base_of(house, None, state.base).path}"


def _served_base(house: House, state: WeightsState, model: str) -> ServedBase:
    """The base as it will be served. Raises BaseDiffers, BaseMissing, ChallengerUnfit if it is not the checkpoint's."""
    prefix = next((each for each in (LLAMACPP, TRANSFORMERS) if model.startswith(each)), None)
    if prefix is None:
        if house.settings.model_base != state.base:
            actual = f"it was trained on the base {state.base}, and {model} serves {house.settings.model_base}"
            raise ChallengerUnfit(actual=actual, expected="one trained on the served base")
        return ServedBase(model, "vllm")
    base = read_base(Path(model.removeprefix(prefix)), state.base)
    server: Server = "llama.cpp" if prefix == LLAMACPP else "transformers"
    return ServedBase(base.digest, server, str(base.path), takes_adapters=base.architecture in ADAPTERS)


def _instead(folder_of: FolderOf, weights: str, place: Path) -> FolderOf:
    """The FolderOf that returns a place for some weights, and asks another one for all others."""
    return lambda digest: place if digest == weights else folder_of(digest)
