"""Arguments that start a model server, so that it serves a base, or a challenger on that base. Pure.

A challenger is an adapter beside the base or a whole model in its place. A reference that is missing, changed or of the
wrong kind is an error and never the silent base. The rules are the seeds' (`seeds/flywheel.txt`, "Serving the
challenger").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from hashlib import sha1
from pathlib import PurePosixPath
from typing import Any, Final, Literal

from .errors import ChallengerAmbiguous, ChallengerUnfit, ReferenceMissing, ReferenceUnmounted, ReferenceUnreadable

Server = Literal["llama.cpp", "vllm", "transformers", "api"]

ADAPTER, CHALLENGER = "_lora_adapter", "_challenger_model"
MAX_RANK: Final = 64
"""Largest rank that vLLM makes room for, unless a request names another one."""

_WHOLE: Final = Decimal(1)
_REFERENCE: Final = re.compile(r"(?:(?P<volume>[A-Za-z0-9][A-Za-z0-9._-]*):)?(?P<path>/[^\0]*[^/\0])")
_SHOWN: Final = 8
_NAMES: Final[Mapping[Server, str]] = {"vllm": "vLLM", "transformers": "Transformers"}


@dataclass(frozen=True, slots=True)
class ServedBase:
    """A base as a server has it: its server, its served name, its file or folder, and the projector beside it.

    `takes_adapters` is False if its adapters cannot be converted, so that a challenger is a whole model.
    """

    name: str
    server: Server
    model: str = ""
    mmproj: str | None = None
    takes_adapters: bool = True


SEEDS: Final[Mapping[str, ServedBase]] = {
    base.name: base
    for base in (
        ServedBase("holo3", "llama.cpp", takes_adapters=False),  # qwen3_5_moe: its adapters have no GGUF form
        ServedBase("gemma4-cua", "llama.cpp"),
        *(ServedBase(name, "vllm") for name in ("evocua-8b", "evocua-32b", "opencua-32b", "opencua-72b", "fara")),
        ServedBase("claude", "api", takes_adapters=False),
    )
}
"""The seeds' bases. Other bases are described by whoever deploys them."""


@dataclass(frozen=True, slots=True)
class Challenger:
    """A request's reference to a model in place of the base: an adapter, or a whole GGUF model."""

    adapter: str | None = None
    model: str | None = None
    name: str = "challenger"
    scale: Decimal = _WHOLE
    max_rank: int = MAX_RANK


@dataclass(frozen=True, slots=True)
class Artefact:
    """The file or folder at a reference, with the digest of its bytes and the rank of an adapter, if known."""

    is_folder: bool
    digest: str
    rank: int | None = None


LookUp = Callable[[PurePosixPath], Artefact | None]
"""Returns what lies at a path of this machine, None if there is nothing."""


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """How a base or a challenger on it is served.

    `arguments` are the server's own. Requests name `model`. `convert` is a PEFT folder that has to be converted to the
    file `converted` before the server starts, whose name is of the content. `tag` names the challenger in logs.
    """

    server: Server
    model: str
    arguments: tuple[str, ...]
    is_challenger: bool = False
    convert: PurePosixPath | None = None
    converted: PurePosixPath | None = None
    tag: str | None = None


def challenger_from_suite(suite: Mapping[str, Any], fixed: str | None = None) -> Challenger:
    """The challenger of a request's suite, or the one that `fixed` (FLYWHEEL_LORA_ADAPTER) sets for a deployment.

    Raises ChallengerAmbiguous, ChallengerUnfit.
    """
    adapter, model = (_reference(suite, name) for name in (ADAPTER, CHALLENGER))
    if adapter is not None and model is not None:
        raise ChallengerAmbiguous(actual=f"{ADAPTER} and {CHALLENGER}")
    if fixed is not None and (model or adapter) not in {None, fixed}:
        raise ChallengerAmbiguous(actual=f"{model or adapter}, and the deployment's {fixed}")
    return Challenger(
        adapter=fixed if model is None and adapter is None else adapter,
        model=model,
        name=str(suite.get("_lora_name", "challenger")),
        scale=_scale(suite.get("_lora_scale", 1)),
        max_rank=_max_rank(suite.get("_lora_max_rank", MAX_RANK)),
    )


def _reference(suite: Mapping[str, Any], name: str) -> str | None:
    value = suite.get(name)
    if value is not None and (not isinstance(value, str) or not value):
        raise ChallengerUnfit(actual=f"{name} is {value!r}", expected="a reference such as /path or volume:/path")
    return value


def _scale(value: object) -> Decimal:
    try:
        scale = Decimal(str(value))
    except InvalidOperation:
        scale = Decimal("NaN")
    if not scale.is_finite() or scale <= 0:
        raise ChallengerUnfit(actual=f"_lora_scale is {value!r}", expected="a number above 0")
    return scale


def _max_rank(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ChallengerUnfit(actual=f"_lora_max_rank is {value!r}", expected="a whole number above 0")
    return value


def find_mounted(reference: str, mounts: Mapping[str, PurePosixPath]) -> PurePosixPath:
    """The path of a reference on this machine: `volume:/path` below its mount, `/path` as it is.

    Raises ReferenceUnreadable, ReferenceUnmounted.
    """
    found = _REFERENCE.fullmatch(reference)
    if found is None or ".." in PurePosixPath(found["path"]).parts:
        raise ReferenceUnreadable(actual=reference)
    volume, path = found["volume"], PurePosixPath(found["path"])
    if volume is None:
        return path
    if volume not in mounts:
        raise ReferenceUnmounted(actual=reference, volume=volume, expected=", ".join(sorted(mounts)) or "none")
    return mounts[volume] / path.relative_to("/")


def plan_serving(
    base: ServedBase, wanted: Challenger, mounts: Mapping[str, PurePosixPath], look_up: LookUp, cache: PurePosixPath
) -> ServingPlan:
    """How a base is served with what a request wants; without a challenger, the base alone.

    Raises ChallengerAmbiguous, ChallengerUnfit, ReferenceUnreadable, ReferenceUnmounted, ReferenceMissing.
    """
    reference = wanted.adapter or wanted.model
    if wanted.adapter is not None and wanted.model is not None:
        raise ChallengerAmbiguous(actual=f"{wanted.adapter} and {wanted.model}")
    if reference is None:
        return ServingPlan(base.server, base.name, _alone(base))
    if base.server == "api":
        raise ChallengerUnfit(actual=f"{base.name} is served by its vendor", expected="a base whose weights are ours")
    path = find_mounted(reference, mounts)
    found = look_up(path)
    if found is None:
        raise ReferenceMissing(actual=reference, path=path)
    tag = f"{path.name}-{sha1(reference.encode(), usedforsecurity=False).hexdigest()[:_SHOWN]}"
    if wanted.model is not None:
        return _whole_model(base, path, found, tag)
    if base.server != "llama.cpp":
        return _folder_adapter(base, wanted, path, found, tag)
    return _llama_adapter(base, wanted, path, found, tag, cache)


def _alone(base: ServedBase) -> tuple[str, ...]:
    if base.server != "llama.cpp" or not base.model:
        return ()
    return ("-m", base.model, *_beside(base))


def _beside(base: ServedBase) -> tuple[str, ...]:
    return () if base.mmproj is None else ("--mmproj", base.mmproj)


def _whole_model(base: ServedBase, path: PurePosixPath, found: Artefact, tag: str) -> ServingPlan:
    """A merged model in the base's place; the base's projector stays."""
    if base.server != "llama.cpp":
        actual = f"{CHALLENGER} on {base.name}, which {base.server} serves"
        raise ChallengerUnfit(actual=actual, expected=f"{ADAPTER} with a PEFT folder")
    if found.is_folder or path.suffix != ".gguf":
        raise ChallengerUnfit(actual=f"{CHALLENGER} is {path}", expected="one merged .gguf file")
    return ServingPlan("llama.cpp", base.name, ("-m", str(path), *_beside(base)), is_challenger=True, tag=tag)


def _folder_adapter(
    base: ServedBase, wanted: Challenger, path: PurePosixPath, found: Artefact, tag: str
) -> ServingPlan:
    """An adapter that is loaded as a PEFT folder. vLLM serves it under a name of its own, which requests must use."""
    if not found.is_folder:
        actual = f"{ADAPTER} is the file {path}"
        raise ChallengerUnfit(actual=actual, expected=f"a PEFT folder, which {_NAMES[base.server]} loads")
    if wanted.scale != _WHOLE:
        actual = f"the scale {wanted.scale} on {_NAMES[base.server]}"
        raise ChallengerUnfit(actual=actual, expected=f"1, because {_NAMES[base.server]} has no scale")
    if base.server == "transformers":
        return ServingPlan("transformers", base.name, (), is_challenger=True, tag=tag)
    _refuse_rank(found, wanted.max_rank)
    if wanted.name == base.name:
        raise ChallengerUnfit(actual=f"the adapter's name is {wanted.name}", expected="another name than the base's")
    modules = ("--enable-lora", "--lora-modules", f"{wanted.name}={path}", "--max-lora-rank", str(wanted.max_rank))
    return ServingPlan("vllm", wanted.name, modules, is_challenger=True, tag=tag)


def _refuse_rank(found: Artefact, most: int) -> None:
    if found.rank is not None and found.rank > most:
        raise ChallengerUnfit(actual=f"the adapter's rank is {found.rank}", expected=f"at most {most}")


def _llama_adapter(
    base: ServedBase, wanted: Challenger, path: PurePosixPath, found: Artefact, tag: str, cache: PurePosixPath
) -> ServingPlan:
    """A GGUF adapter on llama.cpp; a PEFT folder is converted once, to a file named by its content."""
    if not base.takes_adapters:
        actual = f"{ADAPTER} on {base.name}, whose adapters have no GGUF form"
        raise ChallengerUnfit(actual=actual, expected=f"{CHALLENGER} with a merged .gguf file")
    _refuse_rank(found, wanted.max_rank)
    if not found.is_folder and path.suffix != ".gguf":
        raise ChallengerUnfit(actual=f"{ADAPTER} is the file {path}", expected="a .gguf file or a PEFT folder")
    converted = cache / f"lora_{found.digest[:16]}.gguf" if found.is_folder else None
    file = str(path if converted is None else converted)
    scaled = ("--lora", file) if wanted.scale == _WHOLE else ("--lora-scaled", file, f"{wanted.scale:f}")
    convert = path if found.is_folder else None
    arguments = (*_alone(base), *scaled)
    return ServingPlan("llama.cpp", base.name, arguments, True, convert, converted, tag)  # noqa: FBT003
