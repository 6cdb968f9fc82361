"""A base model read back from a GGUF file is the base that was written, and what cannot be read is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eventlog.weights_folder import count_parameters, read_base
from tests.tiny import make_base
from trainer.bases import load_model, load_tokenizer
from trainer.errors import GgufUnreadable, NotConvertible
from trainer.export import export_base
from trainer.gguf_base import base_from_gguf
from trainer.gguf_names import rotary_factors

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what training needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

SAID = "open /boats/17 and press “call”\n\tfor 3141 <|im_end|> naïve 東京"


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3", "llama"])
def test_a_base_in_f32_comes_back_with_its_weights_tokens_and_template(tmp_path: Path, architecture: Any) -> None:
    import torch

    base = make_base(tmp_path / "bases", architecture)
    file = export_base(base, "gguf-f32", tmp_path / "model.gguf")
    found = base_from_gguf(file, tmp_path / "found")
    ours, theirs = load_model(base, torch.float32), load_model(found, torch.float32)
    held = theirs.state_dict()
    assert all(torch.equal(tensor, held[name]) for name, tensor in ours.state_dict().items())
    ids = torch.arange(9)[None]
    with torch.no_grad():
        assert torch.equal(ours(input_ids=ids).logits, theirs(input_ids=ids).logits)
    assert count_parameters(base.path) == count_parameters(found.path) == ours.num_parameters()
    assert (found.architecture, found.vocabulary, found.longest) == (base.architecture, base.vocabulary, base.longest)
    own, other = load_tokenizer(base), load_tokenizer(found)
    assert own.encode(SAID) == other.encode(SAID)
    assert other.decode(own.encode(SAID)) == SAID
    turns = [{"role": "user", "content": "hello"}]
    assert own.apply_chat_template(turns, tokenize=False) == other.apply_chat_template(turns, tokenize=False)
    assert own.eos_token_id == other.eos_token_id
    assert base_from_gguf(file, tmp_path / "found") == found


def test_a_file_that_is_cut_off_or_is_no_gguf_is_refused(tmp_path: Path) -> None:
    whole = export_base(make_base(tmp_path / "bases"), "gguf-q8_0", tmp_path / "model.gguf").read_bytes()
    for name, content in (("cut", whole[: len(whole) // 2]), ("other", b"no weights"), ("empty", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(GgufUnreadable, match=name):
            base_from_gguf(tmp_path / name, tmp_path / "found")
    with pytest.raises(GgufUnreadable, match="missing"):
        base_from_gguf(tmp_path / "missing.gguf", tmp_path / "found")


def test_experts_are_refused_by_the_name_of_their_architecture(tmp_path: Path) -> None:
    file = export_base(make_base(tmp_path / "bases", "qwen3_moe", experts=4), "gguf-f16", tmp_path / "model.gguf")
    with pytest.raises(NotConvertible, match="qwen3moe"):
        base_from_gguf(file, tmp_path / "found")
    assert not (tmp_path / "found").exists()


def test_a_base_has_no_adapter_form(tmp_path: Path) -> None:
    base = make_base(tmp_path / "bases")
    for form in ("peft", "gguf-adapter"):
        with pytest.raises(NotConvertible, match="for adapters"):
            export_base(base, form, tmp_path / "out")


def test_the_rotary_factors_of_llama3_are_those_that_transformers_computes(tmp_path: Path) -> None:
    import numpy as np
    import torch
    from transformers import AutoConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    config = AutoConfig.for_model("llama", hidden_size=128, num_attention_heads=2, rope_parameters=rope)
    wanted, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    plain = 500000.0 ** -(np.arange(0, 64, 2) / 64)
    factors = rotary_factors({**config.to_dict(), "rope_parameters": rope})
    assert factors is not None
    assert factors.max() == 8.0
    assert factors.min() == 1.0
    np.testing.assert_allclose(plain / factors, wanted.numpy(), rtol=1e-6)
    assert rotary_factors({"rope_theta": 1.0}) is None


def test_a_file_with_scaled_positions_is_refused(tmp_path: Path) -> None:
    import json

    base = make_base(tmp_path / "bases", "llama")
    config = json.loads((base.path / "config.json").read_bytes())
    config["rope_parameters"] |= {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    (base.path / "config.json").write_text(json.dumps(config))
    file = export_base(read_base(base.path), "gguf-f32", tmp_path / "model.gguf")
    with pytest.raises(NotConvertible, match="rope_freqs"):
        base_from_gguf(file, tmp_path / "found")


def test_a_model_with_sliding_windows_is_refused(tmp_path: Path) -> None:
    import json

    base = make_base(tmp_path / "bases", "qwen2")
    config = json.loads((base.path / "config.json").read_bytes())
    (base.path / "config.json").write_text(json.dumps(config | {"use_sliding_window": True, "sliding_window": 16}))
    with pytest.raises(NotConvertible, match="sliding windows"):
        export_base(read_base(base.path), "gguf-f32", tmp_path / "model.gguf")
