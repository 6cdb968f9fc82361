"""Explains a verdict as rows of a table. Pure."""

from __future__ import annotations

from eventlog.events import ArmSummary, Confirmation, Interval, Verdict

from .figures import count_noun, decimal, dollars, probability, shorten_tiny
from .selection import corrected_difference

_MICRO = 1_000_000
_MOST_NAMED = 8
_UNKNOWN = "not computed"


def explain(verdict: Verdict) -> list[tuple[str, str]]:
    """Label and text of each row; a figure that could not be computed reads `not computed`.

    Except under the bootstrap, the rows from `probability of improvement` to `visible instances` do not decide.
    """
    rows = [
        ("decision", verdict.decision),
        ("reasons", "; ".join(verdict.reasons)),
        ("champion", _arm(verdict.champion)),
        ("challenger", _arm(verdict.challenger)),
        ("test", _test(verdict)),
        *([("looks", _looks(verdict))] if verdict.looks else []),
        *([("units", _units(verdict))] if verdict.units is not None else []),
        *describe_claim(verdict),
        ("ledger", _ledger(verdict)),
        ("mean difference", _difference(verdict)),
        *_corrected_row(verdict),
        ("missing", _describe_missing(verdict)),
        ("looked worse", _name_some(verdict.screened)),
        ("played again", "; ".join(map(_describe_confirmations, verdict.confirmations)) or "none"),
        ("regressions", _name_some(verdict.regressions)),
        *([("templates that looked worse", _families(verdict))] if verdict.families else []),
        ("costs", f"challenger {dollars(verdict.challenger.cost)}, champion {dollars(verdict.champion.cost)}"),
        ("compared costs", _describe_comparison(verdict)),
        ("probability of improvement", _number(verdict.prob_improvement)),
        ("win rate", _number(verdict.win_rate)),
        ("wins, ties, losses", _sides(verdict)),
        ("by template", _strata(verdict)),
        ("McNemar's p", _probability(verdict.mcnemar)),
        ("power", _power(verdict)),
        ("visible instances", describe_visible(verdict)),
    ]
    return [(label, shorten_tiny(text)) for label, text in rows]


def _arm(arm: ArmSummary) -> str:
    if arm.runs == 0:
        return f"{arm.artifact}: no run compared"
    passed = f"{arm.passed} of {count_noun(arm.runs, 'run')} passed ({_interval(arm.success)})"
    return f"{arm.artifact}: {passed}, mean score {_number(arm.mean_score)}"


def _test(verdict: Verdict) -> str:
    match verdict.rules.test:
        case "bootstrap":
            return "bootstrap of the seed documents: no p; it decides by all its checks together"
        case "e_process":
            return _e_process(verdict)
        case "group_sequential":
            return _group_sequential(verdict)
        case _:
            return _sign_flip(verdict)


def _sign_flip(verdict: Verdict) -> str:
    if verdict.p_value is None:
        return f"sign flips: {_UNKNOWN}"
    how = "exact" if verdict.draws is None else f"{verdict.draws} draws"
    is_met = verdict.p_value <= verdict.alpha * _MICRO
    against = f"{'at most' if is_met else 'above'} alpha {decimal(verdict.alpha)}"
    return f"sign flips, {how}: p {probability(verdict.p_value)} is {against}"


def _group_sequential(verdict: Verdict) -> str:
    if not verdict.looks:
        return "sign flips at planned looks: nobody looked at an outcome"
    last = verdict.looks[-1]
    is_met = last.outcome == "reject"
    against = f"{'at most' if is_met else 'above'} the alpha {probability(last.boundary)} spent so far"
    seen = f"{verdict.draws} draws, look {last.number} of {last.of}"
    return f"sign flips, {seen}: p {probability(last.p_value)} is {against}"


def _looks(verdict: Verdict) -> str:
    """Each look in short: units, p and the alpha spent so far."""
    looks = (
        f"{look.units} units p {probability(look.p_value)} / {probability(look.boundary)}" for look in verdict.looks
    )
    return "; ".join(looks)


def _units(verdict: Verdict) -> str:
    seeds = count_noun(verdict.units or 0, "seed")
    return f"{seeds}: templates share them, so their instances are not independent and each seed counts once"


def describe_claim(verdict: Verdict) -> list[tuple[str, str]]:
    """The row that narrows what a verdict claims, where seeds of some templates are repeats; none elsewhere."""
    names = ", ".join(verdict.one_answer)
    why = "the right answer is the same at every seed, so its seeds are repeats: nothing is claimed beyond this task"
    return [("claim", f"{names}: {why}")] if names else []


def _families(verdict: Verdict) -> str:
    found = (
        f"{each.template}: {each.champion_runs} and {each.challenger_runs} fresh runs, p {probability(each.p_value)}, "
        f"{'worse' if each.is_worse else 'not shown to be worse'}"
        for each in verdict.families
    )
    return "; ".join(found)


def _e_process(verdict: Verdict) -> str:
    if verdict.e_value is None:
        return f"e-process: {_UNKNOWN}"
    looked = "" if verdict.looked_at is None else f" after {count_noun(verdict.looked_at, 'instance')}"
    asked = f"1 / alpha with alpha {decimal(verdict.alpha)} is required"
    return f"e-process: {decimal(verdict.e_value)}{looked}; {asked}"


def _ledger(verdict: Verdict) -> str:
    if verdict.alpha == 0:
        return "no alpha: the evaluation was opened before alpha ledgers existed"
    return f"alpha {decimal(verdict.alpha)}; total spent on the benchmark {decimal(verdict.alpha_spent)}"


def _difference(verdict: Verdict) -> str:
    margin = f"margin {decimal(verdict.rules.min_mean_delta)}"
    if verdict.interval is None:
        return f"{_number(verdict.mean_delta)}; {margin}"
    return f"{_number(verdict.mean_delta)} ({_interval(verdict.interval)}); {margin}"


def _corrected_row(verdict: Verdict) -> list[tuple[str, str]]:
    """The row of the estimate that is corrected for selection; none where nothing was selected."""
    corrected = corrected_difference(verdict)
    if corrected is None:
        return []
    return [("corrected difference", f"{decimal(corrected)}, because only what is above a bound is promoted")]


def _describe_missing(verdict: Verdict) -> str:
    compared = f"{count_noun(verdict.missing, 'run pair')}, {count_noun(verdict.pairs, 'sealed instance')} compared"
    if verdict.lost is not None:
        compared += f"; lost runs: champion {verdict.lost[0]}, challenger {verdict.lost[1]}"
    if verdict.interrupted is not None:
        first, second = verdict.interrupted
        compared += f"; runs whose process ended before them: champion {first}, challenger {second}"
    if verdict.missing_p is None:
        return compared
    return f"{compared}; p of unequal missing counts {probability(verdict.missing_p)}"


def _describe_confirmations(found: Confirmation) -> str:
    champion = f"champion {found.champion_passed} of {found.champion_runs}"
    challenger = f"challenger {found.challenger_passed} of {found.challenger_runs}"
    outcome = "a regression" if found.is_regression else "no regression"
    return f"{found.instance}: {champion}, {challenger}, p {probability(found.p_value)}, {outcome}"


def _describe_comparison(verdict: Verdict) -> str:
    over = "all pairs" if verdict.rules.cost_basis == "all_pairs" else "pairs that both arms passed"
    challenger, champion = verdict.challenger.compared_cost, verdict.champion.compared_cost
    allowed = f"at most {decimal(verdict.rules.max_cost_ratio)} times is allowed"
    return f"challenger {dollars(challenger)}, champion {dollars(champion)}, over {over}; {allowed}"


def _sides(verdict: Verdict) -> str:
    sides = (verdict.wins, verdict.ties, verdict.losses)
    return _UNKNOWN if None in sides else ", ".join(map(str, sides))


def _strata(verdict: Verdict) -> str:
    each = (f"{s.template} {decimal(s.mean_delta)} over {count_noun(s.instances, 'instance')}" for s in verdict.strata)
    return "; ".join(each) or _UNKNOWN


def _power(verdict: Verdict) -> str:
    if verdict.power is None:
        return _UNKNOWN
    needed = verdict.pairs_needed
    more = "" if needed is None else f"; {count_noun(needed, 'instance')} needed for 0.8"
    return f"{decimal(verdict.power)} at the observed difference{more}"


def describe_visible(verdict: Verdict) -> str:
    """The mean scores of both arms on the visible instances."""
    visible = verdict.visible
    if visible is None:
        return _UNKNOWN
    means = f"champion {decimal(visible.champion_mean)}, challenger {decimal(visible.challenger_mean)}"
    return f"{count_noun(visible.instances, 'instance')}: {means}; not used for the decision"


def _name_some(instances: tuple[str, ...]) -> str:
    """The first few names, and the number of the rest: `--json` lists all."""
    rest = len(instances) - _MOST_NAMED
    return ", ".join((*instances[:_MOST_NAMED], *([f"and {rest} more"] if rest > 0 else []))) or "none"


def _number(millionths: int | None) -> str:
    return _UNKNOWN if millionths is None else decimal(millionths)


def _probability(pico: int | None) -> str:
    return _UNKNOWN if pico is None else probability(pico)


def _interval(interval: Interval) -> str:
    return f"95 % interval {decimal(interval.low)} to {decimal(interval.high)}"


def headline(verdict: Verdict) -> str:
    """The decision in one plain sentence."""
    name = verdict.challenger.artifact
    match verdict.decision:
        case "promote":
            return f"{name} becomes champion: it was shown to be better than {verdict.champion.artifact}"
        case "hold" if verdict.regressions or any(each.is_worse for each in verdict.families):
            return f"{name} stays out: it is better on the whole, and worse where it may not be"
        case "hold":
            return f"{name} stays out: it was not shown to be better than {verdict.champion.artifact}"
        case _:
            return f"no decision about {name}: the arms cannot be compared"
