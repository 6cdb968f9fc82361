from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import comb, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import PairedRule, SeedsRule
from projections.evidence import (
    Evidence,
    Paired,
    Rule,
    Trial,
    add_trial,
    e_value,
    is_better,
    is_spent,
    is_trial,
    is_turning,
    judge_adoption,
    next_look,
    rule_of,
)

Pair = tuple[bool, int]
PAIRS = st.tuples(st.booleans(), st.integers(0, 3))


def paired(**changes: object) -> Paired:
    rule: Rule = rule_of(PairedRule.model_validate(changes, strict=False).model_dump(mode="json"))
    assert isinstance(rule, Paired)
    return rule


RULE = paired()
SINGLE = paired(controls=1)


def test_an_early_stop_gives_up_wherever_the_rule_itself_does_and_at_no_lower_number() -> None:
    for own in (PairedRule.current(), PairedRule(futile=((4, 50), (7, 10)))):
        early = own.with_early_stop()
        assert all(dict(early.futile)[k] >= least for k, least in own.futile)
        assert early.model_copy(update={"futile": own.futile}) == own
    assert PairedRule.current().with_early_stop().futile[-3:] == ((30, 200), (40, 250), (50, 150))
    single = PairedRule(controls=1, futile=((9, 1),))
    assert single.with_early_stop() == single


def after(pairs: Iterable[Pair], rule: Paired = RULE) -> Evidence:
    found = Evidence()
    for won, successes in pairs:
        found = add_trial(found, rule, Trial(won=won, controls=rule.controls, successes=successes))
    return found


def judged(pairs: Iterable[Pair], rule: Paired = RULE) -> tuple[int, str] | None:
    """After how many trials something was decided, and what."""
    before = Evidence()
    for won, successes in pairs:
        now = add_trial(before, rule, Trial(won=won, controls=rule.controls, successes=successes))
        judgement = judge_adoption(before, rule, now)
        if judgement is not None:
            return now.k, judgement
        before = now
    return None


def test_what_always_fails_without_and_always_works_with_is_adopted_at_the_first_look() -> None:
    assert judged([(True, 0)] * 50) == (10, "adopt")
    assert judged([(True, 0)] * 9) is None
    assert after([(True, 0)] * 10).u == after([(True, 0)] * 10).v == 30


def test_one_slip_in_ten_waits_for_the_next_look() -> None:
    """k * U^2 is 298 * V almost to the unit at ten clean trials, so nothing less will do there."""
    assert judged([(True, 0)] * 9 + [(True, 1)] + [(True, 0)] * 40) == (20, "adopt")


@pytest.mark.parametrize("pair", [(True, 3), (False, 0), (False, 3), (False, 1)])
def test_what_does_nothing_or_harm_is_given_up_at_the_last_look(pair: Pair) -> None:
    assert judged([pair] * 60) == (50, "give_up")


def test_wins_that_never_came_three_in_a_row_are_not_enough() -> None:
    pairs = [(True, 0), (True, 0), (False, 0)] * 20
    assert is_better(after(pairs[:19]), RULE, after(pairs[:20]))
    assert judged(pairs) == (50, "give_up")
    assert judged(pairs[:20] + [(True, 0)] * 30) == (30, "adopt")


def test_evidence_between_looks_decides_nothing() -> None:
    pairs = [(True, 0)] * 49
    looks = {k for k in range(1, 50) if is_better(after(pairs[: k - 1]), RULE, after(pairs[:k]))}
    assert looks == {10, 20, 30, 40}


@given(st.lists(PAIRS, max_size=60))
def test_u_and_v_are_the_sums_that_the_rule_names(pairs: list[Pair]) -> None:
    found = after(pairs)
    all_four = [(int(won), int(won) + successes) for won, successes in pairs]
    assert found.u == sum(4 * w - s for w, s in all_four)
    assert found.v == sum(s * (4 - s) for _, s in all_four)
    assert (found.k, found.wins, found.losses) == (len(pairs), sum(w for w, _ in all_four), len(pairs) - found.wins)
    assert (found.control_runs, found.control_successes) == (3 * len(pairs), sum(c for _, c in pairs))
    streaks = "".join("W" if won else " " for won, _ in pairs).split(" ")
    assert (found.streak, found.longest) == (len(streaks[-1]), max(map(len, streaks)))


@given(st.lists(PAIRS, min_size=50, max_size=60))
def test_every_piece_is_decided_at_a_look_and_at_the_last_one_at_latest(pairs: list[Pair]) -> None:
    found = judged(pairs)
    assert found is not None
    k, judgement = found
    evidence = after(pairs[:k])
    meets = evidence.u > 0 and evidence.v >= 30 and evidence.k * evidence.u**2 >= 298 * evidence.v
    assert k in RULE.looks
    assert (judgement == "adopt") == (meets and evidence.longest >= 3)
    assert judgement == "adopt" or k == 50


@given(st.lists(PAIRS, max_size=50))
def test_the_other_way_about_is_the_same_statistic_with_the_sign_reversed(pairs: list[Pair]) -> None:
    """Where outcomes swap, U changes its sign and V stays: what is better for one is worse for the other."""
    one, other = after(pairs), after([(not won, 3 - successes) for won, successes in pairs])
    assert (other.u, other.v) == (-one.u, one.v)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 1)), max_size=120))
def test_with_one_control_the_pairs_that_differ_are_counted(pairs: list[Pair]) -> None:
    found = after(pairs, SINGLE)
    differing = [won for won, control in pairs if won != bool(control)]
    assert (found.v, (found.v + found.u) // 2) == (len(differing), sum(differing))


@pytest.mark.parametrize(("pairs_of", "wins"), PairedRule().single)
def test_the_table_of_one_control_is_met_exactly(pairs_of: int, wins: int) -> None:
    lost, won = [(False, 1)] * (pairs_of - wins), [(True, 0)] * wins
    met = lost + won
    assert is_better(after(met[:-1], SINGLE), SINGLE, after(met, SINGLE))
    short = [(False, 1), *lost, *won[1:]]
    assert not is_better(after(short[:-1], SINGLE), SINGLE, after(short, SINGLE))


def test_with_one_control_a_pair_that_does_not_differ_is_no_new_look() -> None:
    met = [(True, 0)] * 14
    assert judged(met, SINGLE) == (14, "adopt")
    assert not is_better(after(met, SINGLE), SINGLE, after([*met, (True, 1)], SINGLE))
    assert judged([(True, 1)] * 100, SINGLE) == (80, "give_up")
    assert judged([(False, 1), (True, 0)] * 50, SINGLE) == (43, "give_up")


def test_a_trial_has_as_many_controls_as_the_rule_asks() -> None:
    three, none = Trial(won=True, controls=3, successes=1), Trial(won=True, controls=0, successes=0)
    seeds = rule_of(SeedsRule().model_dump(mode="json"))
    assert is_trial(Evidence(), RULE, three)
    assert not is_trial(Evidence(), RULE, none)
    assert not is_trial(Evidence(), SINGLE, three)
    assert is_trial(Evidence(), seeds, none)


def test_the_next_look_is_told() -> None:
    assert [next_look(Evidence(k=k), RULE) for k in (0, 9, 10, 49, 50)] == [10, 10, 20, 50, None]
    assert next_look(Evidence(k=60, v=14), SINGLE) == 17
    assert is_spent(RULE, Evidence(k=50))
    assert not is_spent(RULE, Evidence(k=49))


@pytest.mark.parametrize("changes", [{"controls": 0}, {"looks": ()}, {"looks": (20, 10)}, {"looks": (0, 10)}])
def test_a_rule_that_cannot_be_met_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"expected"):
        PairedRule.model_validate(changes)


# the fast lane, the futility stop, and the seed as the unit ---------------------------------------------------------

QUICK = paired(**PairedRule.current().model_dump())


def at_seeds(pairs: Iterable[Pair], rule: Paired = QUICK) -> tuple[int, str] | None:
    """As `judged`, each trial at a seed of its own."""
    before = Evidence()
    for seed, (won, successes) in enumerate(pairs):
        trial = Trial(won=won, controls=rule.controls, successes=successes, seed=seed)
        assert is_trial(before, rule, trial)
        now = add_trial(before, rule, trial)
        judgement = judge_adoption(before, rule, now)
        if judgement is not None:
            return now.k, judgement
        before = now
    return None


def test_what_always_fails_without_and_always_works_with_is_adopted_after_five_trials() -> None:
    assert at_seeds([(True, 0)] * 50) == (5, "adopt")
    assert at_seeds([(True, 0)] * 4) is None


def test_what_does_nothing_is_given_up_at_the_first_place_of_the_futility_stop() -> None:
    for pair in [(False, 0), (True, 3), (False, 3), (False, 1)]:
        assert at_seeds([pair] * 60) == (20, "give_up")


def test_a_rule_from_before_has_no_fast_lane_and_no_futility_stop() -> None:
    assert judged([(True, 0)] * 50) == (10, "adopt")
    assert judged([(False, 3)] * 60) == (50, "give_up")
    assert after([(True, 0)] * 9).passed == ()


@given(st.lists(PAIRS, max_size=30))
def test_the_e_value_is_the_mean_product_of_the_likelihood_ratios(pairs: list[Pair]) -> None:
    def ratio(odds: int, w: int, s: int) -> Fraction:
        with_, without = (comb(3, s - 1) if s else 0), comb(3, s)
        chance = Fraction(odds * with_, odds * with_ + without)
        null = Fraction(with_, with_ + without)
        return chance / null if w else (1 - chance) / (1 - null)

    each = [prod((ratio(odds, int(won), int(won) + c) for won, c in pairs), start=Fraction(1)) for odds in QUICK.odds]
    assert e_value(after(pairs, QUICK), QUICK) == sum(each) / len(each)


@pytest.mark.parametrize("s", range(5))
def test_without_an_effect_the_e_value_does_not_rise_in_the_mean(s: int) -> None:
    """What makes its bound hold at every number of trials, whatever the chance to pass is."""
    value = {w: e_value(after([(bool(w), s - w)], QUICK), QUICK) for w in (0, 1) if 0 <= s - w <= 3}
    mean = sum(Fraction(s if w else 4 - s, 4) * value[w] for w in value)
    assert mean == 1


def test_a_second_trial_at_a_seed_does_not_count_where_the_seed_is_the_unit() -> None:
    first = Trial(won=True, controls=3, successes=0, seed=7)
    found = add_trial(Evidence(), QUICK, first)
    assert found.seeds == (7,)
    assert not is_trial(found, QUICK, first)
    assert not is_trial(found, QUICK, Trial(won=True, controls=3, successes=0))
    assert is_trial(found, QUICK, Trial(won=True, controls=3, successes=0, seed=8))
    assert is_trial(add_trial(Evidence(), RULE, first), RULE, first)


def test_evidence_turns_by_about_a_standard_error() -> None:
    assert not is_turning(after([(True, 0)] * 3))
    assert is_turning(after([(True, 0)] * 4))
    assert not is_turning(after([(True, 2), (False, 1)] * 10))


def test_a_fast_lane_needs_odds_and_a_value() -> None:
    for changes in ({"odds": (8,)}, {"e_value": 500}):
        with pytest.raises(ValueError, match=r"expected both, or neither"):
            PairedRule.model_validate(changes)
