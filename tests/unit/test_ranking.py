from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from agents.learning.ranking import STOPWORDS, content_words, ln_micro, rank_texts, rarity_micro, word_share

WORDS = st.sampled_from(["boat", "engine", "log", "papers", "the", "gear", "ratio"])
TEXTS = st.dictionaries(st.sampled_from("abcdef"), st.lists(WORDS, max_size=8).map(" ".join), max_size=6)
QUESTIONS = st.lists(WORDS, max_size=5).map(" ".join)


def reference(question: str, texts: dict[str, str]) -> dict[str, float]:
    """BM25 as its formula says, in floats."""
    split = {key: content_words(text) for key, text in texts.items()}
    mean = sum(map(len, split.values())) / max(1, len(split))
    found: dict[str, float] = {}
    for word in set(content_words(question)):
        having = [key for key, own in split.items() if word in own]
        rarity = math.log(1 + (len(texts) - len(having) + 0.5) / (len(having) + 0.5))
        for key in having:
            times = split[key].count(word)
            below = times + 1.2 * (0.25 + 0.75 * len(split[key]) / mean)
            found[key] = found.get(key, 0) + rarity * times * 2.2 / below
    return found


@given(QUESTIONS, TEXTS)
def test_scores_are_those_of_bm25_to_a_few_millionths(question: str, texts: dict[str, str]) -> None:
    expected = reference(question, texts)
    found = dict(rank_texts(question, texts))
    assert found.keys() == expected.keys()
    assert all(abs(score - 1_000_000 * expected[key]) < 30 for key, score in found.items())


@given(QUESTIONS, TEXTS, st.randoms())
def test_the_order_of_texts_and_of_the_questions_words_does_not_matter(
    question: str, texts: dict[str, str], random: st.DataObject
) -> None:
    keys, asked = list(texts), question.split()
    random.shuffle(keys)  # type: ignore[attr-defined]
    random.shuffle(asked)  # type: ignore[attr-defined]
    assert rank_texts(" ".join(asked), {key: texts[key] for key in keys}) == rank_texts(question, texts)


@given(QUESTIONS, TEXTS, st.lists(st.sampled_from(["harbour", "tide"]), max_size=9).map(" ".join))
def test_a_text_that_shares_nothing_gets_no_rank_and_parts_no_tie(
    question: str, texts: dict[str, str], irrelevant: str
) -> None:
    more = {**texts, "z": irrelevant}
    found = rank_texts(question, more)
    assert "z" not in dict(found)
    same = [(one, other) for one in texts for other in texts if one < other and texts[one] == texts[other]]
    order = [key for key, _ in found]
    assert all(order.index(one) < order.index(other) for one, other in same if one in order)


def test_equal_texts_are_in_order_of_id() -> None:
    assert [key for key, _ in rank_texts("engine", {"b": "the engine", "a": "engine", "c": "log"})] == ["a", "b"]


def test_a_rare_word_outweighs_a_common_one_and_a_short_text_a_long_one() -> None:
    texts = {"a": "engine log", "b": "engine papers", "c": "engine", "d": "engine log of the boat and its gear ratio"}
    assert [key for key, _ in rank_texts("engine papers", texts)][:2] == ["b", "c"]
    assert [key for key, _ in rank_texts("log", texts)] == ["a", "d"]


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_the_logarithm_is_right_to_a_few_millionths_and_never_falls(numerator: int, denominator: int) -> None:
    numerator = max(numerator, denominator)
    assert abs(ln_micro(numerator, denominator) - 1_000_000 * math.log(numerator / denominator)) < 10
    assert ln_micro(numerator + denominator, denominator) > ln_micro(numerator, denominator) >= 0


@given(st.integers(0, 50), st.integers(0, 50))
def test_a_word_is_worth_less_the_more_texts_have_it(one: int, other: int) -> None:
    few, many = sorted((one, other))
    assert rarity_micro(50, few) >= rarity_micro(50, many) > 0


def test_words_leave_out_what_says_nothing_and_know_other_scripts() -> None:
    assert content_words("Open THE Boats page, at /boats-2!") == ("open", "boats", "page", "boats", "2")
    assert content_words("Führe die Maße über") == ("führe", "die", "masse", "über")
    assert content_words(" ".join(STOPWORDS)) == ()


def test_a_share_is_of_what_was_asked() -> None:
    assert word_share("look for the engine", "the engine") == 500_000
    assert word_share("the", "anything") == 1_000_000
    assert word_share("engine", "boats") == 0
