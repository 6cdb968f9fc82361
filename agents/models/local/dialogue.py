"""Messages as token ids. A sampled answer is never tokenised again: the next prompt contains its sampled ids.

The chat template is filled with placeholders and cut at them. Each piece is encoded by itself, so a longer conversation
begins with the tokens of a shorter one, and the text of a message cannot produce a special token.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from eventlog.weights_folder import TOKENIZER, Base

from ..errors import BaseUnfit
from ..model import ChatMessage

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MOST_REMEMBERED: Final = 65_536
"""Most answers whose ids are kept. An older answer is tokenised again, and its run makes one more dataset row."""

_BYTE: Final = re.compile("<0x[0-9A-F]{2}>")
"""A token of tokenizers that fall back to bytes."""

_PLACE: Final = re.compile("\ue000([0-9]+)\ue001")


class Dialogue:
    """Tokenizer and chat template of a base model, and the ids of sampled answers. Thread-safe.

    Raises BaseUnfit if the template does not render each message once and in order.
    """

    def __init__(self, base: Base) -> None:
        from tokenizers import Tokenizer
        from transformers import AutoTokenizer

        self._base = base
        self._template: Any = AutoTokenizer.from_pretrained(base.path, local_files_only=True)
        self._marks = _plain(Tokenizer.from_file(str(base.path / TOKENIZER)))
        words = _plain(Tokenizer.from_file(str(base.path / TOKENIZER)))
        words.encode_special_tokens = True
        self._word_ids: Callable[[str], tuple[int, ...]] = lru_cache(1024)(lambda text: _ids(words, text))
        self._mark_ids: Callable[[str], tuple[int, ...]] = lru_cache(1024)(lambda text: _ids(self._marks, text))
        self._remembered: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        self._lock = Lock()
        end = self._template.eos_token_id
        *_, after, _ = self._pieces(("system", "user", "assistant", "user"))
        self.ends: frozenset[int] = base.ends | self._first_special(after) | ({int(end)} if end is not None else set())

    def prompt(self, messages: Sequence[ChatMessage], drawn_as: str) -> tuple[int, ...]:
        """Ids of a conversation up to its next answer. `drawn_as` names the weights and sampling of its answers."""
        pieces = self._pieces(tuple(message.role for message in messages))
        ids = [*self._mark_ids(pieces[0])]
        for message, key, after in zip(messages, _keys(messages, drawn_as), pieces[1:], strict=True):
            answer = self._recall(key) if message.role == "assistant" else None
            said = answer or self._word_ids(message.text)
            ids += [*said, *self._mark_ids(self._without_end(after, said))]
        return tuple(ids)

    def remember(self, messages: Sequence[ChatMessage], drawn_as: str, text: str, ids: tuple[int, ...]) -> None:
        """Keep the tokens of an answer to these messages."""
        *_, key = _keys([*messages, ChatMessage("assistant", (text,))], drawn_as)
        with self._lock:
            self._remembered[key] = ids
            self._remembered.move_to_end(key)
            while len(self._remembered) > MOST_REMEMBERED:
                self._remembered.popitem(last=False)

    def text_ids(self, text: str) -> tuple[int, ...]:
        """Ids of a text outside any conversation; it may name special tokens, and gets those that begin every text."""
        return tuple(self._marks.encode(text).ids)

    def without_open_bytes(self, ids: Sequence[int]) -> Sequence[int]:
        """Tokens up to the last one that is no single byte: bytes are decoded together, once none follows."""
        end = len(ids)
        while end and _BYTE.fullmatch(self._marks.id_to_token(ids[end - 1]) or ""):
            end -= 1
        return ids[:end]

    def text(self, ids: Sequence[int]) -> str:
        """Text of tokens, without special tokens."""
        return str(self._marks.decode(list(ids), skip_special_tokens=True))

    def token(self, token: int) -> str:
        """Text of one token. An incomplete character becomes the replacement character."""
        return str(self._marks.decode([token], skip_special_tokens=False))

    def _pieces(self, roles: tuple[str, ...]) -> tuple[str, ...]:
        """Text of the template before, between and after the messages. Raises BaseUnfit."""
        said = [{"role": role, "content": f"\ue000{place}\ue001"} for place, role in enumerate(roles)]
        whole = str(self._template.apply_chat_template(said, tokenize=False, add_generation_prompt=True))
        cut = _PLACE.split(whole)
        if cut[1::2] != [str(place) for place in range(len(roles))]:
            raise BaseUnfit(
                path=self._base.path,
                actual="its chat template omits or reorders messages",
                expected="one that renders each message once and in order",
            )
        return tuple(cut[::2])

    def _first_special(self, text: str) -> frozenset[int]:
        """First special token of a text, with which a trained model ends its answers; empty if there is none."""
        special = {number for number, token in self._marks.get_added_tokens_decoder().items() if token.special}
        return frozenset([each for each in self._mark_ids(text) if each in special][:1])

    def _recall(self, key: str) -> tuple[int, ...] | None:
        with self._lock:
            if key in self._remembered:
                self._remembered.move_to_end(key)
            return self._remembered.get(key)

    def _without_end(self, after: str, answer: tuple[int, ...]) -> str:
        """Text of the template after an answer, without the end token if the answer contains it."""
        if answer and answer[-1] in self.ends:
            return after.removeprefix(self.token(answer[-1]))
        return after


def _keys(messages: Sequence[ChatMessage], drawn_as: str) -> Iterator[str]:
    """A digest for each message, of it and all messages before it."""
    content = hashlib.sha256(drawn_as.encode())
    for message in messages:
        said = message.text.encode()
        content.update(f"\n{message.role} {len(said)}\n".encode() + said)
        yield content.hexdigest()


def _plain(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _ids(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode(text, add_special_tokens=False).ids) if text else ()
