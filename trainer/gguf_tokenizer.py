"""Byte-level BPE tokenizers between Transformers' tokenizer.json and GGUF, in both directions.

A tokenizer is converted only if its pre-tokenizer is one that both sides define identically; any other is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from eventlog.weights_folder import TEMPLATE, TOKENIZER

from .errors import NotConvertible

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_FIRST = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_LAST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

CUTS: Mapping[str, str] = {
    "qwen2": rf"{_FIRST}|\p{{N}}|{_LAST}",
    "llama-bpe": rf"{_FIRST}|\p{{N}}{{1,3}}|{_LAST}",
}
"""Supported pre-tokenizer regular expressions, keyed by GGUF's names."""

_BYTE_LEVEL: Final = "ByteLevel"
_KNOWN: Final = "byte-level BPE with the pre-tokenizer of Qwen2, Llama 3, SmolLM or GPT-2"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A byte-level BPE tokenizer in the form GGUF needs. `cut` is GGUF's name of its pre-tokenizer.

    `special` are the ids of control tokens, `defined` those of other tokens that are matched before BPE.
    """

    cut: str
    tokens: tuple[str, ...]
    special: frozenset[int]
    defined: frozenset[int]
    unused: frozenset[int]
    merges: tuple[str, ...]
    begin: int | None
    end: int
    pad: int | None
    template: str


def read_vocabulary(folder: Path, config: Mapping[str, Any]) -> Vocabulary:
    """Read the tokenizer of a base model. Raises NotConvertible."""
    told = json.loads((folder / TOKENIZER).read_bytes())
    names = json.loads((folder / "tokenizer_config.json").read_bytes())
    ids = dict(told["model"]["vocab"]) | {one["content"]: one["id"] for one in told["added_tokens"]}
    tokens = [f"[PAD{place}]" for place in range(config["vocab_size"])]
    for token, place in ids.items():
        tokens[place] = token
    template = (folder / TEMPLATE).read_text()
    return Vocabulary(
        cut=_cut(told, str(config["model_type"])),
        tokens=tuple(tokens),
        special=frozenset(one["id"] for one in told["added_tokens"] if one["special"]),
        defined=frozenset(one["id"] for one in told["added_tokens"] if not one["special"]),
        unused=frozenset(range(config["vocab_size"])) - frozenset(ids.values()),
        merges=tuple(merge if isinstance(merge, str) else " ".join(merge) for merge in told["model"]["merges"]),
        begin=ids.get(names.get("bos_token") or ""),
        end=ids[names["eos_token"]],
        pad=ids.get(names.get("pad_token") or ""),
        # Only Transformers supports these tags.
        template=template.replace("{% generation %}", "").replace("{% endgeneration %}", ""),
    )


def _cut(told: Mapping[str, Any], architecture: str) -> str:
    """GGUF's name of a pre-tokenizer. Raises NotConvertible."""
    cutting = told.get("pre_tokenizer") or {}
    parts = cutting.get("pretokenizers", [cutting])
    found = [part["pattern"].get("Regex") for part in parts if part.get("type") == "Split"]
    known = [name for name, expression in CUTS.items() if found == [expression]]
    if not found and parts[-1].get("type") == _BYTE_LEVEL and parts[-1].get("use_regex", True):
        before = [(part.get("type"), part.get("individual_digits")) for part in parts[:-1]]
        known = [name for name, wanted in _BEFORE.items() if before == wanted]
    if told["model"]["type"] != "BPE" or not known:
        kinds = [part.get("type") for part in parts]
        raise NotConvertible(
            what="tokenizer",
            architecture=architecture,
            actual=f"its pre-tokenizer is {found or kinds}",
            expected=_KNOWN,
        )
    return known[0]


_BEFORE: Final[Mapping[str, list[tuple[str, bool]]]] = {"smollm": [("Digits", True)], "gpt-2": []}
"""Steps before the byte-level pre-tokenizer with GPT-2's expression, keyed by GGUF's names."""


def make_tokenizer(vocabulary: Vocabulary, longest: int) -> PreTrainedTokenizerFast:
    """The tokenizer of a vocabulary, padded on the left. Raises NotConvertible."""
    from tokenizers import AddedToken, Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    ids = {token: place for place, token in enumerate(vocabulary.tokens) if place not in vocabulary.unused}
    merges = [(first, second) for first, _, second in (merge.partition(" ") for merge in vocabulary.merges)]
    bpe = Tokenizer(models.BPE(vocab=ids, merges=merges))
    bpe.pre_tokenizer = _pre_tokenizer(vocabulary.cut)
    bpe.decoder = decoders.ByteLevel()
    for places, is_special in ((vocabulary.special, True), (vocabulary.defined, False)):
        added = [AddedToken(vocabulary.tokens[place], special=is_special, normalized=False) for place in sorted(places)]
        (bpe.add_special_tokens if is_special else bpe.add_tokens)(added)
    named = {"bos_token": vocabulary.begin, "eos_token": vocabulary.end, "pad_token": vocabulary.pad}
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        **{name: vocabulary.tokens[place] for name, place in named.items() if place is not None},
        padding_side="left",
        chat_template=vocabulary.template,
        model_max_length=longest,
        clean_up_tokenization_spaces=False,
    )


def _pre_tokenizer(cut: str) -> Any:
    from tokenizers import Regex, pre_tokenizers

    if cut in CUTS:
        split = pre_tokenizers.Split(Regex(CUTS[cut]), "isolated")
        return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if cut == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), whole])
    if cut == "gpt-2":
        return whole
    raise NotConvertible(what="tokenizer", architecture="GGUF", actual=f"its pre-tokenizer is {cut}", expected=_KNOWN)
