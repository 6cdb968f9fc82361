"""Creates a small base model: random weights from a seed, and a byte-level BPE tokenizer trained on given texts.

The same texts, shape and seed give a byte-identical folder on the same CPU type and library versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from eventlog.errors import BaseDiffers
from eventlog.weights_folder import Base, folder_digest, read_base

from .atomic_move import move_in
from .gguf_tokenizer import CUTS
from .scratch_folder import scratch_folder

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedTokenizerFast

Architecture = Literal["llama", "qwen2", "qwen3", "qwen3_moe"]

END, START, PAD = "<|im_end|>", "<|im_start|>", "<|endoftext|>"

TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """Size of a small model; the defaults give about 3 million parameters. `experts` above 0: a mixture of experts."""

    architecture: Architecture = "qwen2"
    vocabulary: int = 512
    hidden: int = 256
    layers: int = 4
    heads: int = 4
    key_heads: int = 2
    inner: int = 640
    longest: int = 1024
    experts: int = 0


_SIZES: Final[Mapping[str, str]] = {
    "hidden": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "key_heads": "num_key_value_heads",
    "inner": "intermediate_size",
    "longest": "max_position_embeddings",
}
"""Fields of a shape and their names in config.json."""

_EXPERTS: Final = ("num_experts", "num_local_experts")


def shape_of(configuration: Mapping[str, Any]) -> Shape | None:
    """Infer the shape of a small model from its config.json; None if the model was not created by this module.

    The vocabulary is the tokenizer's actual size, which is below the requested size if the texts had too few pieces.
    """
    architecture: Any = configuration.get("model_type")
    names = {"vocabulary": "vocab_size", **_SIZES}
    sizes: dict[str, Any] = {field: configuration.get(name) for field, name in names.items()}
    if architecture not in get_args(Architecture) or not all(isinstance(size, int) for size in sizes.values()):
        return None
    experts = next((configuration[name] for name in _EXPERTS if name in configuration), 0)
    return Shape(architecture, **sizes, experts=experts)


def make_tiny(out: Path, texts: Iterable[str], shape: Shape, seed: int, expected: str | None = None) -> Base:
    """Create the model in `out/<digest>`. An existing folder is kept.

    Leftovers of killed processes are removed first. Raises BaseDiffers if the digest is not `expected`; then no folder
    is created.
    """
    with scratch_folder(out, "making-base") as making:
        tokenizer = _tokenizer(texts, shape.vocabulary)
        _save_model(making, shape, tokenizer, seed)
        tokenizer.save_pretrained(making)
        digest = folder_digest(making)
        if expected is not None and digest != expected:
            raise BaseDiffers(path=out / expected, actual=digest, expected=expected)
        place = out / digest
        making.chmod(0o755)
        move_in(making, place)
    return read_base(place)


def _tokenizer(texts: Iterable[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """Train byte-level BPE on the texts: it encodes any text, and frequent pieces of the texts as one token each."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    cut = pre_tokenizers.Split(Regex(CUTS["qwen2"]), "isolated")
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [cut, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    bpe.decoder = decoders.ByteLevel()
    merging = trainers.BpeTrainer(
        vocab_size=vocabulary,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[PAD, START, END],
        show_progress=False,
    )
    bpe.train_from_iterator(texts, merging)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[START],
        padding_side="left",
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def _save_model(folder: Path, shape: Shape, tokenizer: PreTrainedTokenizerFast, seed: int) -> None:
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(_configuration(shape, tokenizer), dtype=torch.float32)
    model.save_pretrained(folder)


def _configuration(shape: Shape, tokenizer: PreTrainedTokenizerFast) -> PreTrainedConfig:
    from transformers import AutoConfig

    own_heads = {} if shape.architecture in {"llama", "qwen2"} else {"head_dim": shape.hidden // shape.heads}
    mixture = {
        "num_experts": shape.experts,
        "num_experts_per_tok": min(2, shape.experts),
        "moe_intermediate_size": shape.inner,
        "norm_topk_prob": True,
    }
    return AutoConfig.for_model(
        shape.architecture,
        vocab_size=len(tokenizer),
        **{name: getattr(shape, field) for field, name in _SIZES.items()},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        attention_dropout=0.0,
        **own_heads,
        **(mixture if shape.experts else {}),
    )
