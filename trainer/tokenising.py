"""Words into token ids, as a base model's tokenizer and chat template make them. For demonstrations, which have no ids.

What a policy draws is never tokenised here or anywhere: its ids are in the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import TemplateUnfit

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Turn = Mapping[str, str]
"""One message, by `role` and `content`."""

_OUTSIDE = ("bos_token", "eos_token", "strftime_now")
"""What a template may ask for that stands in neither of the two files."""


@dataclass(frozen=True, slots=True)
class Tokeniser:
    """A tokenizer with a chat template. `ends` are its special tokens."""

    tokenizer: PreTrainedTokenizerFast
    template: str
    ends: frozenset[int]

    def tokenised(self, asked: Sequence[Turn], answer: str) -> tuple[list[int], list[int]]:
        """The ids of the prompt that asks for an answer, and those of the answer to the end of its turn.

        Raises TemplateUnfit where the template does not write the answer after the prompt, or does not end its turn.
        """
        prompt = self._written(asked, asks=True)
        whole = self._written([*asked, {"role": "assistant", "content": answer}], asks=False)
        if not whole.startswith(prompt):
            raise TemplateUnfit(actual="it writes an answer otherwise than after what asks for it")
        ids = self._ids(whole.removeprefix(prompt))
        last = max((place for place, token in enumerate(ids) if token in self.ends), default=None)
        if last is None:
            raise TemplateUnfit(actual="it ends no answer with a special token")
        return self._ids(prompt), ids[: last + 1]

    def _written(self, turns: Sequence[Turn], *, asks: bool) -> str:
        given = [dict(turn) for turn in turns]
        return str(
            self.tokenizer.apply_chat_template(
                given, chat_template=self.template, tokenize=False, add_generation_prompt=asks
            )
        )

    def _ids(self, text: str) -> list[int]:
        return [int(token) for token in self.tokenizer.encode(text, add_special_tokens=False)]


def tokeniser_of(tokenizer: bytes, template: str) -> Tokeniser:
    """The tokeniser of a tokenizer.json and a chat template. Raises TemplateUnfit."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    for name in _OUTSIDE:
        if name in template:
            raise TemplateUnfit(actual=f"it asks for {name}")
    found = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_buffer(tokenizer), clean_up_tokenization_spaces=False
    )
    ends = frozenset(number for number, token in found.added_tokens_decoder.items() if token.special)
    return Tokeniser(found, template, ends)
