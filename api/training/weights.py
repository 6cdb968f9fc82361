"""Weights on disk: base models, and checkpoints unpacked from blobs. They are verified but not loaded here."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from agents.executors.local import FolderOf
from eventlog.blobs import Inventory
from eventlog.errors import BaseDiffers
from eventlog.weights_folder import Base, folder_digest, read_base
from projections.checkpoints import WEIGHTS, WeightsState
from trainer.atomic_move import move_in
from trainer.checkpoint import load_checkpoint
from trainer.scratch_folder import scratch_folder

from ..house import House
from ..queries.bases import find_base
from ..queries.checkpoints import DIGEST, find_weights
from .errors import NoBase, NotABase
from .first_bases import made_again


def folder_of(house: House, weights: str) -> Path:
    """Folder of a checkpoint, unpacked if necessary and verified each time; only changed files are hashed again.

    Raises Unknown, CheckpointAltered, CheckpointMissing, BaseDiffers, BlobMissing, BlobDamaged.
    """
    state = find_weights(house.views(), weights)
    place = house.settings.model_folder / state.checkpoint
    if not place.exists():
        _unpack(house.blobs, state, place)
    _check(state, place)
    return place


def folders_of(house: House) -> FolderOf:
    """Function that returns the folder of a checkpoint, for policies that load checkpoints on demand."""
    return partial(folder_of, house)


def base_of(house: House, named: str | None, wanted: str | None) -> Base:
    """The base model `named` by a folder, digest or name, else the one with the digest `wanted`, which it must match.

    A base that no warm-up produced is looked up by digest in the folder of unpacked weights. The missing initial model
    of a first warm-up is recreated. Raises NoBase, NotABase, Unknown, BaseMissing, BaseDiffers, StartDiffers.
    """
    if named is None:
        return _by_digest(house, wanted)
    if Path(named).is_dir():
        return read_base(Path(named), wanted)
    if (added := find_base(house.views(), named)) is not None:
        return read_base(house.settings.model_folder / added.base, wanted)
    if not DIGEST.fullmatch(named):
        return read_base(Path(named), wanted)
    state = find_weights(house.views(), named)
    if not state.is_base:
        raise NotABase(actual=state.checkpoint, algorithm=state.algorithm)
    return read_base(folder_of(house, state.checkpoint), wanted)


def _by_digest(house: House, digest: str | None) -> Base:
    if digest is None:
        raise NoBase(actual="no base was given")
    place = house.settings.model_folder / digest
    if (state := house.views().get(WEIGHTS, digest)) is not None:
        return base_of(house, state.checkpoint, digest)
    if place.is_dir():
        return read_base(place, digest)
    if (start := made_again(house, digest)) is None:
        raise NoBase(actual=f"no warm-up produced {digest}, and it is not at {place}")
    return start


def _unpack(blobs: Inventory, state: WeightsState, place: Path) -> None:
    """Unpack the files into a temporary folder, verify them, and move them into place atomically."""
    with scratch_folder(place.parent, "unpacking") as making:
        if place.exists():
            return
        for file in state.files:
            (making / file.name).write_bytes(blobs.get(file.blob).body)
        _check(state, making)
        making.chmod(0o755)
        move_in(making, place)


def _check(state: WeightsState, folder: Path) -> None:
    if not state.is_base:
        load_checkpoint(folder, state.checkpoint)
    elif (actual := folder_digest(folder)) != state.checkpoint:
        raise BaseDiffers(path=folder, actual=actual, expected=state.checkpoint)
