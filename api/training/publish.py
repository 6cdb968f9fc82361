"""Exports a checkpoint to a file, or publishes it into a model store for serving.

A model store is a folder that executors mount read-only, or an object store. Published files are never overwritten.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_IMODE
from typing import Final, Literal

from eventlog.blobs.objects import SCHEMES, open_store
from eventlog.chain import digest
from eventlog.events import CheckpointPublished, Form
from eventlog.store import Append
from eventlog.weights_folder import Base, folder_digest, read_base
from projections.checkpoints import WeightsState
from trainer.atomic_move import move_in
from trainer.checkpoint import load_checkpoint
from trainer.scratch_folder import scratch_folder

from ..errors import NotAnAdapter
from ..house import House
from .errors import NoBase, NotPublished
from .weights import folder_of

_FILES: Final = {
    "gguf-adapter": "adapter.gguf",
    "gguf-f32": "model-f32.gguf",
    "gguf-f16": "model-f16.gguf",
    "gguf-q8_0": "model-q8_0.gguf",
}
WHOLE: Final = frozenset({"gguf-f32", "gguf-f16", "gguf-q8_0"})
"""Forms of a whole model, which a base model has as well."""
_READ_ONLY: Final = 0o555


def export_to(house: House, state: WeightsState, base: Base | None, form: Form, out: Path) -> Path:
    """Export an adapter: a folder for peft, else a file. A base model has the whole forms of GGUF alone.

    Raises NotAnAdapter, OutTaken, BaseDiffers, NotConvertible, ExportMismatch, and as `folder_of`.
    """
    from trainer.export import export, export_base  # noqa: PLC0415 its imports take seconds

    if state.is_base and form not in WHOLE:
        raise NotAnAdapter(actual=state.checkpoint)
    if state.is_base:
        return export_base(read_base(folder_of(house, state.checkpoint), state.checkpoint), form, out)
    if base is None:
        raise NoBase(actual=f"no base was given, and {state.checkpoint} is an adapter")
    return export(load_checkpoint(folder_of(house, state.checkpoint), state.checkpoint), base, form, out)


def publish(
    house: House, state: WeightsState, base: Base | None, form: Form, place: str, actor: str
) -> CheckpointPublished:
    """Publish a checkpoint into a model store, under its digest and form, and record it.

    A base is copied unchanged where the form is peft, and written as GGUF in the other forms.

    Idempotent. Raises NoBase, NotPublished, ObjectStoreUnusable, and as `export_to`.
    """
    with _write_form(house, state, base, form) as folder:
        words: Form | Literal["base"] = "base" if state.is_base and form not in WHOLE else form
        lies = f"{place.rstrip('/')}/{state.checkpoint}/{words}"
        if place.partition("://")[0] in SCHEMES and "://" in place:
            _put(folder, place, f"{state.checkpoint}/{words}")
        else:
            _place(folder, Path(place), Path(lies))
        event = CheckpointPublished(
            checkpoint=state.checkpoint,
            form=words,
            place=lies,
            digest=folder_digest(folder),
        )
    key = f"published:{state.checkpoint}:{words}:{digest([lies, event.digest]).hex()[:16]}"
    house.store.append([Append(f"checkpoint/{state.checkpoint}", (event,), actor, key=key)])
    return event


@contextmanager
def _write_form(house: House, state: WeightsState, base: Base | None, form: Form) -> Iterator[Path]:
    """Yield a folder with exactly the files to publish."""
    with scratch_folder(house.settings.model_folder, "exporting") as folder:
        whole = folder / "whole"
        if state.is_base and form not in WHOLE:
            shutil.copytree(folder_of(house, state.checkpoint), whole)
        elif form == "peft":
            export_to(house, state, base, form, whole)
        else:
            whole.mkdir()
            export_to(house, state, base, form, whole / _FILES[form])
        yield whole


def _place(folder: Path, store: Path, lies: Path) -> None:
    """Move a folder into a model store atomically and make it read-only. Raises NotPublished."""
    if not store.is_dir():
        raise NotPublished(place=store, actual="the folder does not exist", expected="a mounted model store")
    if not lies.exists():
        lies.parent.mkdir(exist_ok=True)
        with scratch_folder(store, "publishing") as making:
            shutil.copytree(folder, making, dirs_exist_ok=True)
            for file in making.iterdir():
                file.chmod(0o444)
            move_in(making, lies)
    actual, expected = folder_digest(lies), folder_digest(folder)
    if actual != expected:
        wanted = f"an unused path, or a checkpoint with the digest {expected}"
        raise NotPublished(place=lies, actual=f"the path holds {actual}", expected=wanted)
    if S_IMODE(lies.stat().st_mode) != _READ_ONLY:  # a publish that was killed left it writable
        lies.chmod(_READ_ONLY)


def _put(folder: Path, url: str, prefix: str) -> None:
    """Upload every file of a folder into an object store. Raises NotPublished if a name holds different bytes."""
    from obstore.exceptions import AlreadyExistsError  # noqa: PLC0415 an extra, imported on use

    store = open_store(url)
    for file in sorted(folder.iterdir()):
        body, path = file.read_bytes(), f"{prefix}/{file.name}"
        try:
            store.put(path, body, mode="create")
        except AlreadyExistsError as error:
            if bytes(store.get(path).bytes()) != body:
                place, expected = f"{url}/{path}", "no such object, or the same bytes"
                raise NotPublished(place=place, actual="the object has different bytes", expected=expected) from error
