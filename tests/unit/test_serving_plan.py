"""What a server is started with, by the seeds' table, and that nothing wrong is ever served as the silent base."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import pytest

from agents.models.servers.errors import (
    ChallengerAmbiguous,
    ChallengerUnfit,
    ReferenceMissing,
    ReferenceUnmounted,
    ReferenceUnreadable,
    ServingRefused,
)
from agents.models.servers.plan import (
    SEEDS,
    Artefact,
    Challenger,
    ServingPlan,
    challenger_from_suite,
    find_mounted,
    plan_serving,
)
from trainer.errors import NotConvertible
from trainer.gguf_names import architecture_of

MOUNTS = {"mantis-trainer-vol": PurePosixPath("/trainer")}
CACHE = PurePosixPath("/cache")
LIES = {
    "/trainer/checkpoints/grpo": Artefact(is_folder=True, digest="a" * 64, rank=16),
    "/trainer/checkpoints/grpo.gguf": Artefact(is_folder=False, digest="b" * 64),
    "/trainer/merged.gguf": Artefact(is_folder=False, digest="c" * 64),
    "/trainer/merged.bin": Artefact(is_folder=False, digest="d" * 64),
}
REF = "mantis-trainer-vol:/checkpoints/grpo"
HOLO = replace(SEEDS["holo3"], model="/models/holo3.gguf", mmproj="/models/mmproj.gguf")
GEMMA = replace(SEEDS["gemma4-cua"], model="/models/gemma.gguf")
FARA = SEEDS["fara"]


def plan(base: Any, **wanted: Any) -> ServingPlan:
    return plan_serving(base, Challenger(**wanted), MOUNTS, lambda path: LIES.get(str(path)), CACHE)


def test_without_a_challenger_the_base_is_served_under_its_name() -> None:
    assert plan(HOLO) == ServingPlan(
        "llama.cpp", "holo3", ("-m", "/models/holo3.gguf", "--mmproj", "/models/mmproj.gguf")
    )
    assert plan(FARA) == ServingPlan("vllm", "fara", ())
    assert plan(SEEDS["claude"]) == ServingPlan("api", "claude", ())


def test_vllm_serves_a_peft_folder_under_a_name_of_its_own() -> None:
    found = plan(FARA, adapter=REF)
    assert found.model == "challenger"
    assert found.is_challenger
    assert found.arguments == (
        *("--enable-lora", "--lora-modules", "challenger=/trainer/checkpoints/grpo"),
        *("--max-lora-rank", "64"),
    )


def test_llama_cpp_takes_a_gguf_adapter_and_converts_a_folder_to_a_file_named_by_its_content() -> None:
    ready = plan(GEMMA, adapter=f"{REF}.gguf")
    assert ready.arguments == ("-m", "/models/gemma.gguf", "--lora", "/trainer/checkpoints/grpo.gguf")
    assert (ready.model, ready.convert) == ("gemma4-cua", None)
    made = plan(GEMMA, adapter=REF)
    assert made.convert == PurePosixPath("/trainer/checkpoints/grpo")
    assert made.converted == PurePosixPath("/cache/lora_aaaaaaaaaaaaaaaa.gguf")
    assert made.arguments[-2:] == ("--lora", "/cache/lora_aaaaaaaaaaaaaaaa.gguf")
    scaled = plan(GEMMA, adapter=REF, scale=Decimal("0.5"))
    assert scaled.arguments[-3:] == ("--lora-scaled", "/cache/lora_aaaaaaaaaaaaaaaa.gguf", "0.5")
    assert scaled.tag == made.tag
    assert made.tag is not None
    assert made.tag.startswith("grpo-")
    assert ready.tag != made.tag


def test_a_whole_model_takes_the_place_of_the_base_and_keeps_its_projector() -> None:
    found = plan(HOLO, model="mantis-trainer-vol:/merged.gguf")
    assert found.arguments == ("-m", "/trainer/merged.gguf", "--mmproj", "/models/mmproj.gguf")
    assert (found.model, found.is_challenger) == ("holo3", True)


@pytest.mark.parametrize(
    ("base", "wanted", "refusal", "words"),
    [
        (HOLO, {"adapter": REF}, ChallengerUnfit, "_challenger_model with a merged"),
        (FARA, {"model": "/trainer/merged.gguf"}, ChallengerUnfit, "PEFT folder"),
        (HOLO, {"model": "/trainer/merged.bin"}, ChallengerUnfit, "merged .gguf"),
        (HOLO, {"model": REF}, ChallengerUnfit, "merged .gguf"),
        (FARA, {"adapter": f"{REF}.gguf"}, ChallengerUnfit, "PEFT folder"),
        (GEMMA, {"adapter": "/trainer/merged.bin"}, ChallengerUnfit, "a .gguf file or a PEFT folder"),
        (FARA, {"adapter": REF, "scale": Decimal("0.5")}, ChallengerUnfit, "vLLM has no scale"),
        (FARA, {"adapter": REF, "max_rank": 8}, ChallengerUnfit, "rank is 16; expected at most 8"),
        (GEMMA, {"adapter": REF, "max_rank": 8}, ChallengerUnfit, "rank is 16; expected at most 8"),
        (FARA, {"adapter": REF, "name": "fara"}, ChallengerUnfit, "another name"),
        (SEEDS["claude"], {"adapter": REF}, ChallengerUnfit, "its vendor"),
        (GEMMA, {"adapter": REF, "model": "/trainer/merged.gguf"}, ChallengerAmbiguous, "expected one"),
        (GEMMA, {"adapter": "other-vol:/checkpoints/grpo"}, ReferenceUnmounted, "mantis-trainer-vol"),
        (GEMMA, {"adapter": "mantis-trainer-vol:/checkpoints/none"}, ReferenceMissing, "/trainer/checkpoints/none"),
        (GEMMA, {"adapter": "checkpoints/grpo"}, ReferenceUnreadable, "absolute"),
    ],
)
def test_what_cannot_be_served_is_an_error_and_never_the_base(
    base: Any, wanted: dict[str, Any], refusal: type[ServingRefused], words: str
) -> None:
    with pytest.raises(refusal, match=words.replace(".", r"\.")):
        plan(base, **wanted)


@pytest.mark.parametrize(
    "reference", ["", "grpo", "vol:", "vol:grpo", ":/a", "/", "vol:/", "/a/../b", "v:/../x", "/a/"]
)
def test_a_reference_is_an_absolute_path_with_or_without_a_volume(reference: str) -> None:
    with pytest.raises(ReferenceUnreadable):
        find_mounted(reference, MOUNTS)


def test_a_volume_is_looked_up_below_its_mount() -> None:
    assert find_mounted(REF, MOUNTS) == PurePosixPath("/trainer/checkpoints/grpo")
    assert find_mounted("/trainer/x.gguf", {}) == PurePosixPath("/trainer/x.gguf")


def test_a_suite_names_one_challenger_or_the_deployment_does() -> None:
    assert challenger_from_suite({}) == Challenger()
    suite = {"_lora_adapter": REF, "_lora_scale": 0.5, "_lora_max_rank": 32, "_lora_name": "c"}
    assert challenger_from_suite(suite) == Challenger(REF, None, "c", Decimal("0.5"), 32)
    assert challenger_from_suite({}, fixed=REF).adapter == REF
    assert challenger_from_suite({"_lora_adapter": REF}, fixed=REF).adapter == REF


@pytest.mark.parametrize(
    ("suite", "fixed"),
    [
        ({"_lora_adapter": REF, "_challenger_model": "/m.gguf"}, None),
        ({"_lora_adapter": "/other"}, REF),
        ({"_challenger_model": "/m.gguf"}, REF),
    ],
)
def test_two_challengers_are_refused(suite: dict[str, Any], fixed: str | None) -> None:
    with pytest.raises(ChallengerAmbiguous):
        challenger_from_suite(suite, fixed)


@pytest.mark.parametrize(
    "suite",
    [
        {"_lora_adapter": ""},
        {"_challenger_model": 3},
        {"_lora_scale": 0},
        {"_lora_scale": "nan"},
        {"_lora_scale": "much"},
        {"_lora_max_rank": 0},
        {"_lora_max_rank": True},
        {"_lora_max_rank": "64"},
    ],
)
def test_nonsense_in_a_suite_is_refused_by_its_name(suite: dict[str, Any]) -> None:
    with pytest.raises(ChallengerUnfit, match=next(iter(suite))):
        challenger_from_suite(suite)


@pytest.mark.parametrize("what", ["adapter", "model"])
def test_the_seeds_mixture_of_experts_is_refused_by_name(what: str) -> None:
    with pytest.raises(NotConvertible, match=f"{what}.*qwen3_5_moe"):
        architecture_of({"model_type": "qwen3_5_moe", "num_experts_per_tok": 8, "norm_topk_prob": True}, what)
    assert not SEEDS["holo3"].takes_adapters
