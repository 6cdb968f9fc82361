"""BM25 ranking of texts by shared words, in integers so that every machine ranks alike. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

WHOLE: Final = 1_000_000
STOPWORDS: Final = frozenset(
    (
        *("a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "has", "have", "here", "in", "into", "is"),
        *("it", "its", "of", "on", "or", "that", "the", "their", "then", "there", "this", "to", "was", "were"),
        *("which", "with", "you", "your"),
    )
)
"""Words that ranking ignores."""

_WORD: Final = re.compile(r"[^\W_]+")
_BITS: Final = 30
_LN2_MICRO: Final = 693_147
_K1_TENTHS: Final = 12
"""BM25's term saturation k1 = 1.2, in tenths; the length normalization is b = 3/4."""


def content_words(text: str) -> tuple[str, ...]:
    """Words of a text without stopwords, casefolded, in order; in any script."""
    return tuple(word for word in _WORD.findall(text.casefold()) if word not in STOPWORDS)


def word_share(asked: str, text: str) -> int:
    """Share of the distinct words of `asked` that a text contains, in millionths; WHOLE if `asked` has none."""
    wanted = frozenset(content_words(asked))
    return WHOLE if not wanted else WHOLE * len(wanted & frozenset(content_words(text))) // len(wanted)


def rank_texts(question: str, texts: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    """The ids of the texts that share a word with the question, best first, ties by id; with scores in millionths."""
    counts = {key: Counter(content_words(text)) for key, text in texts.items()}
    lengths = {key: sum(found.values()) for key, found in counts.items()}
    total, amount = sum(lengths.values()), len(texts)
    scores: Counter[str] = Counter()
    for word in sorted(frozenset(content_words(question))):
        having = [key for key, found in counts.items() if word in found]
        rarity = rarity_micro(amount, len(having))
        for key in having:
            scores[key] += _term(counts[key][word], rarity, lengths[key], total, amount)
    return tuple(sorted(scores.items(), key=lambda item: (-item[1], item[0])))


@lru_cache(maxsize=16_384)  # the same few pairs of small numbers recur
def rarity_micro(amount: int, having: int) -> int:
    """ln(1 + (amount - having + 1/2) / (having + 1/2)) in millionths: never below zero."""
    return ln_micro(2 * amount + 2, 2 * having + 1)


def ln_micro(numerator: int, denominator: int) -> int:
    """The natural logarithm of a fraction of at least 1, in millionths, rounded down to the nearest few of them."""
    whole = (numerator // denominator).bit_length() - 1
    rest, found = (numerator << _BITS) // (denominator << whole), 0
    for _ in range(_BITS):
        rest = rest * rest >> _BITS
        bit = rest >> (_BITS + 1)
        rest >>= bit
        found = found << 1 | bit
    return ((whole << _BITS) + found) * _LN2_MICRO >> _BITS


def _term(times: int, rarity: int, length: int, total: int, amount: int) -> int:
    """Score of one word: rarity * f * (k1 + 1) / (f + k1 * (1/4 + 3/4 * length / mean length)), over one fraction."""
    above = 40 * times * (_K1_TENTHS + 10) * total
    below = 400 * times * total + 10 * _K1_TENTHS * (total + 3 * length * amount)
    return rarity * above // below
