"""Exports are read back with the format's own reader and compared with the weights they came from."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eventlog.errors import BaseDiffers
from eventlog.weights_folder import Base
from tests.tiny import make_base, request, sampled, sft_rows
from trainer.adapters import restore_adapter
from trainer.bases import load_model
from trainer.checkpoint import Checkpoint, load_tensors
from trainer.errors import ExportMismatch, NotConvertible, OutTaken
from trainer.export import export, merge_adapter
from trainer.gguf_file import check_file, encode_tensor
from trainer.request import Lora, SftConfig
from trainer.stage import run_stage

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what training needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:The following .* keys did not match any targeted module:RuntimeWarning"),
]

Made = tuple[Base, Checkpoint]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Made]:
    """A trained checkpoint of an architecture, made once."""
    folder = tmp_path_factory.mktemp("export")
    known: dict[str, Made] = {}

    def of(architecture: str) -> Made:
        if architecture not in known:
            experts = 4 if architecture == "qwen3_moe" else 0
            base = make_base(folder / "bases", architecture, experts=experts)
            lora = Lora(rank=4, alpha=8)
            config = SftConfig(steps=2, learning_rate="0.01", rows_per_step=4, lora=lora)
            rows = sft_rows(sampled(base, [2, 2]))
            checkpoint = run_stage(request(folder / architecture, base, "sft", rows, config), lambda _line: None)
            assert checkpoint is not None
            known[architecture] = base, checkpoint
        return known[architecture]

    return of


def held(file: Path) -> dict[str, Any]:
    """Every tensor of a file in float32, by name."""
    import gguf

    return {
        tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type) for tensor in gguf.GGUFReader(file).tensors
    }


def told(file: Path, key: str) -> Any:
    import gguf

    return gguf.GGUFReader(file).fields[key].contents()


def back(rows: Any, heads: int) -> Any:
    """Rows in the order of halves again, undoing what llama's graph wants: row 2 i + j of a head is row i of half j."""
    import numpy as np

    width = rows.shape[0] // heads
    order = [
        head * width + 2 * (place % (width // 2)) + place // (width // 2)
        for head in range(heads)
        for place in range(width)
    ]
    return np.asarray(rows)[order]


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3", "llama"])
def test_the_adapter_times_its_scale_is_what_peft_adds(
    made: Callable[..., Made], tmp_path: Path, architecture: str
) -> None:
    import numpy as np
    import torch

    base, checkpoint = made(architecture)
    file = export(checkpoint, base, "gguf-adapter", tmp_path / "adapter.gguf")
    found = held(file)
    assert told(file, "general.type") == "adapter"
    assert told(file, "general.architecture") == architecture
    before = load_model(base, torch.float32).state_dict()
    after = merge_adapter(checkpoint, base)
    heads = {"q": 4, "k": 2} if architecture == "llama" else {}
    for part, module in {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "ffn_up": "mlp.up_proj"}.items():
        name = f"blk.1.{part}.weight"
        scale = told(file, "adapter.lora.alpha") / found[f"{name}.lora_a"].shape[0]
        added = found[f"{name}.lora_b"] @ found[f"{name}.lora_a"] * scale
        added = back(added, heads[part[-1]]) if part[-1] in heads and "attn" in part else added
        wanted = after[f"model.layers.1.{module}.weight"] - before[f"model.layers.1.{module}.weight"].numpy()
        assert float(np.abs(wanted).max()) > 1e-4
        np.testing.assert_allclose(added, wanted, atol=1e-6)


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3", "llama", "qwen3_moe"])
@pytest.mark.parametrize(("form", "bound"), [("gguf-f16", 2e-4), ("gguf-q8_0", 4e-3)])
def test_a_merged_file_holds_every_weight(
    made: Callable[..., Made], tmp_path: Path, architecture: str, form: Any, bound: float
) -> None:
    import numpy as np

    base, checkpoint = made(architecture)
    file = export(checkpoint, base, form, tmp_path / "merged.gguf")
    found, after = held(file), merge_adapter(checkpoint, base)
    assert told(file, "general.architecture") == architecture.replace("_", "")
    assert len(told(file, "tokenizer.ggml.tokens")) == base.vocabulary
    pairs = {"token_embd.weight": after["model.embed_tokens.weight"], "output_norm.weight": after["model.norm.weight"]}
    if architecture == "qwen3_moe":
        pairs |= {
            "blk.0.ffn_gate_exps.weight": after["model.layers.0.mlp.experts.gate_up_proj"][:, :96],
            "blk.0.ffn_up_exps.weight": after["model.layers.0.mlp.experts.gate_up_proj"][:, 96:],
            "blk.0.ffn_down_exps.weight": after["model.layers.0.mlp.experts.down_proj"],
            "blk.0.ffn_gate_inp.weight": after["model.layers.0.mlp.gate.weight"],
        }
    else:
        pairs["blk.1.ffn_down.weight"] = after["model.layers.1.mlp.down_proj.weight"]
    for name, wanted in pairs.items():
        np.testing.assert_allclose(found[name].reshape(wanted.shape), wanted, atol=bound, err_msg=name)
    query = found["blk.0.attn_q.weight"]
    query = back(query, 4) if architecture == "llama" else query
    np.testing.assert_allclose(query, after["model.layers.0.self_attn.q_proj.weight"], atol=bound)


def test_what_was_trained_on_fused_experts_is_in_the_merged_weights(made: Callable[..., Made]) -> None:
    import torch

    base, checkpoint = made("qwen3_moe")
    name = "model.layers.0.mlp.experts.down_proj"
    before = load_model(base, torch.float32).state_dict()[name].numpy()
    assert float(abs(merge_adapter(checkpoint, base)[name] - before).max()) > 1e-5


def test_an_adapter_on_fused_experts_can_only_be_served_merged(made: Callable[..., Made], tmp_path: Path) -> None:
    base, checkpoint = made("qwen3_moe")
    with pytest.raises(NotConvertible, match="qwen3_moe"):
        export(checkpoint, base, "gguf-adapter", tmp_path / "adapter.gguf")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3_moe"])
def test_a_peft_folder_is_loaded_by_peft_and_gives_the_same_logits(
    made: Callable[..., Made], tmp_path: Path, architecture: str
) -> None:
    import torch
    from peft import PeftModel

    base, checkpoint = made(architecture)
    folder = export(checkpoint, base, "peft", tmp_path / "peft")
    theirs = PeftModel.from_pretrained(load_model(base, torch.float32), folder)
    ours = restore_adapter(
        load_model(base, torch.float32), checkpoint.manifest.lora, load_tensors(checkpoint), checkpoint.path
    ).eval()
    ids = torch.arange(9)[None]
    with torch.no_grad():
        assert torch.equal(theirs(input_ids=ids).logits, ours(input_ids=ids).logits)
        with ours.disable_adapter():
            assert not torch.allclose(theirs(input_ids=ids).logits, ours(input_ids=ids).logits)


def test_an_export_overwrites_nothing(made: Callable[..., Made], tmp_path: Path) -> None:
    base, checkpoint = made("qwen2")
    (tmp_path / "mine").mkdir()
    with pytest.raises(OutTaken):
        export(checkpoint, base, "peft", tmp_path / "mine")


def test_the_base_of_another_seed_is_refused(made: Callable[..., Made], tmp_path: Path) -> None:
    _, checkpoint = made("qwen2")
    with pytest.raises(BaseDiffers):
        export(checkpoint, make_base(tmp_path / "bases", seed=2), "gguf-f16", tmp_path / "merged.gguf")


def test_a_tokenizer_that_the_format_does_not_know_is_refused(made: Callable[..., Made], tmp_path: Path) -> None:
    from dataclasses import replace

    from eventlog.weights_folder import read_base

    base, checkpoint = made("qwen2")
    folder = Path(shutil.copytree(base.path, tmp_path / "other"))
    file = folder / "tokenizer.json"
    file.write_text(file.read_text().replace(r"\\p{N}|", r"\\p{N}{1,2}|"))
    other = read_base(folder)
    manifest = checkpoint.manifest.model_copy(update={"base": other.digest})
    with pytest.raises(NotConvertible, match="pre-tokenizer"):
        export(replace(checkpoint, manifest=manifest), other, "gguf-f16", tmp_path / "merged.gguf")


def test_a_file_with_one_changed_byte_is_no_export(made: Callable[..., Made], tmp_path: Path) -> None:
    base, checkpoint = made("qwen2")
    file = export(checkpoint, base, "gguf-f16", tmp_path / "merged.gguf")
    import gguf

    meant = {
        tensor.name: encode_tensor(tensor.name, gguf.quants.dequantize(tensor.data, tensor.tensor_type), "f16")
        for tensor in gguf.GGUFReader(file).tensors
    }
    check_file(file, meant)
    content = bytearray(file.read_bytes())
    content[-40] ^= 1
    other = tmp_path / "other.gguf"
    other.write_bytes(content)
    with pytest.raises(ExportMismatch, match="different bytes"):
        check_file(other, meant)
