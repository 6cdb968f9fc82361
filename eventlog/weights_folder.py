"""Weights folders: base models and checkpoints, each identified by the digest of its files.

Only this module reads such folders; it loads no weights. A file that did not change since this process hashed it is
not hashed again, so checking a folder before each use costs one `stat` for each file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from threading import Lock
from time import sleep, time_ns
from typing import Any, BinaryIO, Final, NamedTuple

from .errors import BaseDiffers, BaseMissing, CheckpointAltered, CheckpointMissing, CheckpointUnreadable

CONFIG: Final = "config.json"
GENERATION: Final = "generation_config.json"
TOKENIZER: Final = "tokenizer.json"
TEMPLATE: Final = "chat_template.jinja"
MANIFEST: Final = "manifest.json"
TENSORS: Final = "adapter_model.safetensors"
DESCRIPTION: Final = "adapter_config.json"

_CHUNK: Final = 1 << 20
_MOST_KNOWN: Final = 4096
_SETTLED_NS: Final = 20_000_000
"""File system clocks tick every 1 to 10 ms; two changes within one tick have the same timestamp."""


@dataclass(frozen=True, slots=True)
class Base:
    """A base model on disk. `digest` is over its files; `tokenizer` and `chat_template` are digests of those two files.

    `vocabulary` is the number of token ids, `longest` the maximum number of tokens in a row. `ends` are the
    end-of-turn tokens of its configuration. `sees_all` is False if some layers do not attend to all tokens.
    """

    path: Path
    digest: str
    tokenizer: str
    chat_template: str
    architecture: str
    vocabulary: int
    longest: int
    ends: frozenset[int] = frozenset()
    sees_all: bool = True


@dataclass(frozen=True, slots=True)
class CheckpointFolder:
    """A checkpoint on disk. `digest` is of its manifest, `base` of its base model; `files` maps names to digests."""

    path: Path
    digest: str
    manifest: bytes
    base: str
    files: Mapping[str, str]

    def read(self, name: str) -> bytes:
        """The bytes of a file that the manifest names. Raises CheckpointMissing, CheckpointAltered."""
        content, actual = _read_hashed(self._file(name))
        self._compare(name, actual)
        return content

    def check(self) -> None:
        """Hash every file that the manifest names. Raises CheckpointMissing, CheckpointAltered."""
        for name in self.files:
            self._compare(name, file_digest(self._file(name)))

    def _file(self, name: str) -> Path:
        if name not in self.files or not (self.path / name).is_file():
            raise CheckpointMissing(path=self.path, actual=f"there is no {name}")
        return self.path / name

    def _compare(self, name: str, actual: str) -> None:
        if actual != (expected := self.files[name]):
            raise CheckpointAltered(path=self.path, what=name, actual=actual, expected=expected)


def read_base(path: Path, expected: str | None = None) -> Base:
    """Describe a base model without loading its weights. Raises BaseMissing, BaseDiffers."""
    for name in (CONFIG, TOKENIZER, TEMPLATE):
        if not (path / name).is_file():
            raise BaseMissing(path=path, actual=f"there is no {name}")
    _check_weights(path)
    config = _facts(path, CONFIG)
    try:
        facts = (str(config["model_type"]), int(config["vocab_size"]), int(config["max_position_embeddings"]))
        ends = _ends(config | _facts(path, GENERATION)) if (path / GENERATION).is_file() else _ends(config)
    except (ValueError, KeyError, TypeError) as error:
        raise BaseMissing(path=path, actual=f"its {CONFIG} is broken at {error}") from error
    digest = folder_digest(path)
    if expected is not None and digest != expected:
        raise BaseDiffers(path=path, actual=digest, expected=expected)
    tokenizer, template = file_digest(path / TOKENIZER), file_digest(path / TEMPLATE)
    return Base(path, digest, tokenizer, template, *facts, ends, _sees_all(config))


def read_checkpoint(path: Path, expected: str | None = None) -> CheckpointFolder:
    """Read a checkpoint's manifest. Raises CheckpointMissing, CheckpointUnreadable, CheckpointAltered."""
    if not (path / MANIFEST).is_file():
        raise CheckpointMissing(path=path, actual=f"there is no {MANIFEST}")
    content, digest = _read_hashed(path / MANIFEST)
    if expected is not None and digest != expected:
        raise CheckpointAltered(path=path, what=MANIFEST, actual=digest, expected=expected)
    try:
        facts = json.loads(content)
        base, files = str(facts["base"]), {str(name): str(wanted) for name, wanted in facts["files"].items()}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise CheckpointUnreadable(path=path, actual=str(error)) from error
    return CheckpointFolder(path, digest, content, base, files)


def folder_digest(path: Path) -> str:
    """SHA-256 over the names and contents of a folder's visible files, in order of their names."""
    content = hashlib.sha256()
    for file in sorted(path.iterdir(), key=lambda file: file.name.encode()):
        if file.is_file() and not file.name.startswith("."):
            content.update(f"{file.name}\n{file_digest(file)}\n".encode())
    return content.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, cached as long as the file does not change."""
    with path.open("rb") as file:
        state = _state(file)
        return _KNOWN.get(state) or _hash(iter(partial(file.read, _CHUNK), b""), file, state)


def _read_hashed(path: Path) -> tuple[bytes, str]:
    """A file's bytes and their SHA-256."""
    with path.open("rb") as file:
        state = _state(file)
        content = file.read()
        known = _KNOWN.get(state) if _state(file) == state else None
        return content, known or _hash((content,), file, state)


class _State(NamedTuple):
    """The `stat` fields of a file that every write to it changes."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class _Digests:
    """Digests of files that this process hashed, by file state. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[_State, str] = {}
        self._lock = Lock()

    def get(self, state: _State) -> str | None:
        return self._known.get(state)

    def keep(self, state: _State, digest: str) -> None:
        with self._lock:
            while len(self._known) >= _MOST_KNOWN:
                self._known.pop(next(iter(self._known)))
            self._known[state] = digest


_KNOWN: Final = _Digests()


def _state(file: BinaryIO) -> _State:
    found = os.fstat(file.fileno())
    return _State(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _hash(pieces: Iterable[bytes], file: BinaryIO, state: _State) -> str:
    content = hashlib.sha256()
    for piece in pieces:
        content.update(piece)
    digest = content.hexdigest()
    if _has_settled(state) and _state(file) == state:
        _KNOWN.keep(state, digest)
    return digest


def _has_settled(state: _State) -> bool:
    """Wait until a further write would change the state; False if the file's clock is ahead of this process's."""
    young_ns = state.changed_ns + _SETTLED_NS - time_ns()
    if 0 < young_ns <= _SETTLED_NS:
        sleep(young_ns / 1e9)
    return young_ns <= _SETTLED_NS


def _facts(path: Path, name: str) -> dict[str, Any]:
    try:
        facts = json.loads((path / name).read_bytes())
    except ValueError as problem:
        raise BaseMissing(path=path, actual=f"its {name} is broken: {problem}") from problem
    if not isinstance(facts, dict):
        raise BaseMissing(path=path, actual=f"its {name} is no object")
    return facts


def _ends(facts: Mapping[str, Any]) -> frozenset[int]:
    ends = facts.get("eos_token_id")
    return frozenset(map(int, ends if isinstance(ends, list) else [] if ends is None else [ends]))


def _sees_all(config: Mapping[str, Any]) -> bool:
    """True if every layer attends to all tokens."""
    has_window = bool(config.get("sliding_window")) and config.get("use_sliding_window", True)
    return not has_window and set(config.get("layer_types") or ()) <= {"full_attention"}


def _check_weights(path: Path) -> None:
    """Raise BaseMissing unless each weights file has the length its header states, which a truncated file has not."""
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise BaseMissing(path=path, actual="there are no safetensors")
    for file in files:
        actual = file.stat().st_size
        try:
            expected = _length(file)
        except (ValueError, LookupError, TypeError) as error:
            raise BaseMissing(path=path, actual=f"the header of {file.name} is broken or cut off") from error
        if actual != expected:
            raise BaseMissing(path=path, actual=f"{file.name} has {actual} bytes, and its header says {expected}")


def count_parameters(path: Path) -> int:
    """Number of numbers in the tensors of a base folder; tied weights count once."""
    headers = (_header(file)[1] for file in sorted(path.glob("*.safetensors")))
    return sum(prod(each["shape"]) for header in headers for name, each in header.items() if name != "__metadata__")


def _header(file: Path) -> tuple[int, dict[str, Any]]:
    """Length and content of the header of a safetensors file."""
    with file.open("rb") as content:
        size = int.from_bytes(content.read(8), "little")
        header: dict[str, Any] = json.loads(content.read(min(size, file.stat().st_size)))
    return size, header


def _length(file: Path) -> int:
    """Expected size of a safetensors file in bytes: 8 for the header's length, the header, and its tensors."""
    size, header = _header(file)
    ends = [int(header[name]["data_offsets"][1]) for name in header if name != "__metadata__"]
    return 8 + size + max(ends, default=0)
