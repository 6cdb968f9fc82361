"""A base model and checkpoints on disk, as training leaves them: known by their digests, read here and not written.

The digests are those that training gives, a contract test compares them. Of a checkpoint the bytes that were hashed are
loaded. A base is hashed when it is named, and again once its weights are in memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..errors import AdapterAltered, AdapterUnfit, BaseUnfit
from ..model import Served

CONFIG: Final = "config.json"
GENERATION: Final = "generation_config.json"
TOKENIZER: Final = "tokenizer.json"
TEMPLATE: Final = "chat_template.jinja"
MANIFEST: Final = "manifest.json"
TENSORS: Final = "adapter_model.safetensors"
DESCRIPTION: Final = "adapter_config.json"
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class BaseFolder:
    """A base model on disk. `digest` is over its files, `longest` the number of tokens it takes.

    `ends` are tokens that its configuration says end a turn.
    """

    path: Path
    digest: str
    served: Served
    longest: int
    ends: frozenset[int]


@dataclass(frozen=True, slots=True)
class Adapter:
    """A checkpoint in memory: its digest, the bytes of its tensors (safetensors), and PEFT's description of them."""

    digest: str
    path: Path
    tensors: bytes
    description: Mapping[str, Any]


def read_base(path: Path) -> BaseFolder:
    """Look at a base model without loading it. Raises BaseUnfit."""
    for name in (CONFIG, TOKENIZER, TEMPLATE):
        if not (path / name).is_file():
            raise BaseUnfit(path=path, actual=f"there is no {name}", expected="a folder that training has made")
    if not any(path.glob("*.safetensors")):
        raise BaseUnfit(path=path, actual="there are no safetensors", expected="its weights beside its config.json")
    config = _facts(path / CONFIG, path)
    longest = config.get("max_position_embeddings")
    if not isinstance(longest, int):
        raise BaseUnfit(path=path, actual=f"it takes {longest!r} tokens", expected="a max_position_embeddings")
    _refuse_windows(config, path)
    ends = config.get("eos_token_id")
    if (path / GENERATION).is_file():
        ends = _facts(path / GENERATION, path).get("eos_token_id", ends)
    served = Served(file_digest(path / TOKENIZER), file_digest(path / TEMPLATE), processed=True)
    found = ends if isinstance(ends, list) else [] if ends is None else [ends]
    return BaseFolder(path, folder_digest(path), served, longest, frozenset(map(int, found)))


def read_adapter(path: Path, expected: str, base: BaseFolder) -> Adapter:
    """A checkpoint of this digest, for this base. Raises AdapterUnfit, AdapterAltered where its bytes changed."""
    manifest = _bytes(path, MANIFEST)
    if (actual := hashlib.sha256(manifest).hexdigest()) != expected:
        raise AdapterAltered(path=path, what=MANIFEST, actual=actual, expected=expected)
    facts = json.loads(manifest)  # what has this digest was written by training
    if facts["base"] != base.digest:
        raise AdapterUnfit(
            path=path, actual=f"it was trained on the base {facts['base']}", expected=f"one of the base {base.digest}"
        )
    held: dict[str, bytes] = {}
    for name, wanted in sorted(facts["files"].items()):
        held[name] = _bytes(path, name)
        if (actual := hashlib.sha256(held[name]).hexdigest()) != wanted:
            raise AdapterAltered(path=path, what=name, actual=actual, expected=wanted)
    return Adapter(expected, path, held[TENSORS], json.loads(held[DESCRIPTION]))


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, read in pieces."""
    content = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            content.update(piece)
    return content.hexdigest()


def folder_digest(path: Path) -> str:
    """SHA-256 over the names and contents of a folder's visible files, in order of their names."""
    content = hashlib.sha256()
    for file in sorted(path.iterdir(), key=lambda file: file.name.encode()):
        if file.is_file() and not file.name.startswith("."):
            content.update(f"{file.name}\n{file_digest(file)}\n".encode())
    return content.hexdigest()


def _bytes(path: Path, name: str) -> bytes:
    if not (path / name).is_file():
        raise AdapterUnfit(path=path, actual=f"there is no {name}", expected=f"{MANIFEST} and the files that it names")
    return (path / name).read_bytes()


def _facts(file: Path, path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(file.read_bytes())
    except ValueError as problem:
        raise BaseUnfit(path=path, actual=f"its {file.name} is broken: {problem}", expected="JSON") from problem
    if not isinstance(facts, dict):
        raise BaseUnfit(path=path, actual=f"its {file.name} is no object", expected="a JSON object")
    return facts


def _refuse_windows(config: Mapping[str, Any], path: Path) -> None:
    """Raise BaseUnfit for layers that do not look at all tokens: the batches here would show them too many."""
    kinds = set(config.get("layer_types") or ())
    has_window = bool(config.get("sliding_window")) and config.get("use_sliding_window", True)
    if has_window or kinds - {"full_attention"}:
        raise BaseUnfit(path=path, actual="it looks through a sliding window", expected="full attention in every layer")
