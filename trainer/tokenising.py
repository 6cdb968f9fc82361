"""Words into token ids, as a base model's tokenizer and chat template make them. For demonstrations, which have no ids.

What a policy draws is never tokenised here or anywhere: its ids are in the log. What the template says is encoded by
itself and each message by itself, as for a policy: so what stands in a message can make no special token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import TemplateUnfit

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

Turn = Mapping[str, str]
"""One message, by `role` and `content`."""

_OUTSIDE = ("bos_token", "eos_token", "strftime_now")
"""What a template may ask for that stands in neither of the two files."""

_PLACE = re.compile("\ue000([0-9]+)\ue001")


@dataclass(frozen=True, slots=True)
class Tokeniser:
    """A tokenizer with a chat template: `marks` knows special tokens, `words` takes them for text."""

    marks: Tokenizer
    words: Tokenizer
    writer: PreTrainedTokenizerFast
    template: str
    special: frozenset[int]

    def tokenise(self, asked: Sequence[Turn], answer: str) -> tuple[list[int], list[int]]:
        """The ids of the prompt that asks for an answer, and those of the answer with the token that ends its turn.

        Raises TemplateUnfit where the template moves messages, or does not end an answer with a special token.
        """
        roles = [turn["role"] for turn in asked]
        begin, *pieces = self._pieces(roles, opens=True)
        ids = _ids(self.marks, begin)
        for turn, after in zip(asked, pieces, strict=True):
            ids += _ids(self.words, turn["content"]) + _ids(self.marks, after)
        *_, after = self._pieces([*roles, "assistant"], opens=False)
        end = _ids(self.marks, after)[:1]
        if not end or end[0] not in self.special:
            raise TemplateUnfit(actual="it ends no answer with a special token")
        return ids, _ids(self.words, answer) + end

    def _pieces(self, roles: Sequence[str], *, opens: bool) -> list[str]:
        """What the template says before, between and after messages of these roles."""
        said = [{"role": role, "content": f"\ue000{place}\ue001"} for place, role in enumerate(roles)]
        whole = self.writer.apply_chat_template(
            said, chat_template=self.template, tokenize=False, add_generation_prompt=opens
        )
        cut = _PLACE.split(str(whole))
        if cut[1::2] != [str(place) for place in range(len(roles))]:
            raise TemplateUnfit(actual="it leaves out messages or moves them")
        return cut[::2]


def tokeniser_of(tokenizer: bytes, template: str) -> Tokeniser:
    """The tokeniser of a tokenizer.json and a chat template. Raises TemplateUnfit."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    for name in _OUTSIDE:
        if name in template:
            raise TemplateUnfit(actual=f"it asks for {name}")
    marks, words = Tokenizer.from_buffer(tokenizer), Tokenizer.from_buffer(tokenizer)
    for each in (marks, words):
        each.no_padding()
        each.no_truncation()
    words.encode_special_tokens = True
    special = frozenset(number for number, token in marks.get_added_tokens_decoder().items() if token.special)
    writer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_buffer(tokenizer))
    return Tokeniser(marks, words, writer, template, special)


def _ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False).ids) if text else []
