"""Tokenises demonstrations, which have no logged token ids, with a base model's tokenizer and chat template.

Output of a policy is never retokenised: its ids are in the log. Template text and messages are encoded separately, as
for a policy, so the content of a message cannot produce special tokens.
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
"""One message, with the keys `role` and `content`."""

_OUTSIDE = ("bos_token", "eos_token", "strftime_now")
"""Template variables whose values are in neither of the two files."""

_PLACE = re.compile("\ue000([0-9]+)\ue001")


@dataclass(frozen=True, slots=True)
class Tokeniser:
    """A tokenizer with a chat template: `marks` parses special tokens, `words` encodes them as text."""

    marks: Tokenizer
    words: Tokenizer
    writer: PreTrainedTokenizerFast
    template: str
    special: frozenset[int]

    def tokenise(self, asked: Sequence[Turn], answer: str) -> tuple[list[int], list[int]]:
        """Token ids of the prompt, and token ids of the answer including the token that ends its turn.

        Raises TemplateUnfit if the template reorders messages, or does not end an answer with a special token.
        """
        roles = [turn["role"] for turn in asked]
        begin, *pieces = self._pieces(roles, opens=True)
        ids = _ids(self.marks, begin)
        for turn, after in zip(asked, pieces, strict=True):
            ids += _ids(self.words, turn["content"]) + _ids(self.marks, after)
        *_, after = self._pieces([*roles, "assistant"], opens=False)
        end = _ids(self.marks, after)[:1]
        if not end or end[0] not in self.special:
            raise TemplateUnfit(actual="it does not end an answer with a special token")
        return ids, _ids(self.words, answer) + end

    def _pieces(self, roles: Sequence[str], *, opens: bool) -> list[str]:
        """Template text before, between and after messages of these roles."""
        said = [{"role": role, "content": f"\ue000{place}\ue001"} for place, role in enumerate(roles)]
        whole = self.writer.apply_chat_template(
            said, chat_template=self.template, tokenize=False, add_generation_prompt=opens
        )
        cut = _PLACE.split(str(whole))
        if cut[1::2] != [str(place) for place in range(len(roles))]:
            raise TemplateUnfit(actual="it omits or reorders messages")
        return cut[::2]


def tokeniser_of(tokenizer: bytes, template: str) -> Tokeniser:
    """Build a tokeniser from a tokenizer.json and a chat template. Raises TemplateUnfit."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    for name in _OUTSIDE:
        if name in template:
            raise TemplateUnfit(actual=f"it uses the variable {name}")
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
