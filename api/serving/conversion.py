"""Weights as GGUF files for llama.cpp: converted once by a training process, and kept by the digest of the weights.

Files are `FLYWHEEL_MODELS/gguf/<digest>-<form>.gguf`, each with a description beside it, whose digests are compared
before a file is loaded. Training libraries are imported only by the process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from agents.executors.local import FolderOf
from agents.models.llamacpp.network import SIDECAR, Kind, describe_gguf
from eventlog.events import Form
from eventlog.weights_folder import Base, file_digest
from trainer.gguf_names import ADAPTERS
from trainer.scratch_folder import scratch_folder

from ..errors import NotConverted

Precision = Literal["f32", "f16", "q8_0"]

FOLDER: Final = "gguf"
SUFFIX: Final = ".gguf"
_FORMS: Final[dict[Precision, Form]] = {"f32": "gguf-f32", "f16": "gguf-f16", "q8_0": "gguf-q8_0"}
_TAIL: Final = 800


Convert = Callable[[Sequence[str], str], None]
"""Converts some weights: the arguments of `python -m trainer.convert`, and the weights' digest. Raises NotConverted."""


def convert_in_process(arguments: Sequence[str], weights: str) -> None:
    """Run a conversion as a process. Raises NotConverted."""
    done = subprocess.run(  # noqa: S603 our own program
        [sys.executable, "-m", "trainer.convert", *arguments], capture_output=True, text=True, check=False
    )
    last = done.stdout.strip().rpartition("\n")[2]
    told = json.loads(last) if last.startswith("{") else {}
    if told.get("kind") == "saved":
        return
    said = told.get("message") or f"exit code {done.returncode}: {done.stderr.strip()[-_TAIL:]}"
    raise NotConverted(weights=weights, error=told.get("error", "ProcessEnded"), actual=said)


@dataclass(frozen=True, slots=True)
class Conversions:
    """Converts a base, and the checkpoints on it, into a folder, by default in a process of its own."""

    folder: Path
    base: Base
    precision: Precision = "f32"
    convert: Convert = convert_in_process

    def base_file(self) -> Path:
        """The base as one GGUF file. Raises NotConverted."""
        return self._file(self.base.digest, "base", _FORMS[self.precision], ())

    def checkpoint_file(self, digest: str, folder: Path) -> Path:
        """A checkpoint of this base as a GGUF adapter, or merged where those have none. Raises NotConverted."""
        kind: Kind = "adapter" if self.base.architecture in ADAPTERS else "merged"
        form: Form = "gguf-adapter" if kind == "adapter" else _FORMS[self.precision]
        return self._file(digest, kind, form, (str(folder), digest))

    def files_of(self, folder_of: FolderOf) -> FolderOf:
        """Function that returns the GGUF file of a checkpoint by its digest, converted at the first call."""

        def file_of(digest: str) -> Path:
            found = folder_of(digest)
            return found if found.suffix == SUFFIX else self.checkpoint_file(digest, found)

        return file_of

    def _file(self, weights: str, kind: Kind, form: Form, more: Sequence[str]) -> Path:
        place = self.folder / FOLDER / f"{weights}-{form}.gguf"
        if place.with_suffix(SIDECAR).exists():
            return place
        with scratch_folder(place.parent, f"converting-{weights[:16]}") as making:
            if not place.with_suffix(SIDECAR).exists():
                file = making / place.name
                self.convert([str(self.base.path.resolve()), form, str(file), *more], weights)
                describe_gguf(file, weights, self.base.digest, kind)
                os.replace(file, place)  # noqa: PTH105 atomic
                os.replace(file.with_suffix(SIDECAR), place.with_suffix(SIDECAR))  # noqa: PTH105 atomic
        return place


def adopt_file(folder: Path, file: Path, weights: str, base: str, kind: Kind) -> Path:
    """A GGUF file that lies elsewhere, read-only perhaps, as a link among the converted ones, with its description.

    The caller has checked that the file holds these weights.
    """
    place = folder / FOLDER / f"{weights}-{file_digest(file)[:16]}{SUFFIX}"
    if not place.with_suffix(SIDECAR).exists():
        with scratch_folder(place.parent, f"adopting-{weights[:16]}") as making:
            link = making / place.name
            link.symlink_to(file.resolve())
            describe_gguf(link, weights, base, kind)
            os.replace(link, place)  # noqa: PTH105 atomic
            os.replace(link.with_suffix(SIDECAR), place.with_suffix(SIDECAR))  # noqa: PTH105 atomic
    return place
