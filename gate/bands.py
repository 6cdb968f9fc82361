"""Bands in which the sealed part of a benchmark may be told while it can still judge, with the decision. Pure.

Whoever reads the sealed figures of one challenger can choose the next one by them. It is then judged on instances that
it was chosen on, and its alpha no longer bounds the chance of a false promotion.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from eventlog.events import ArmSummary, Verdict

from .explain import describe_claim
from .figures import count_noun, decimal, dollars

Band = Literal["worse", "about equal", "better", "not computed"]

WIDTH: Final = 100_000
"""Half the width of the band `about equal`, in millionths; `make bench-evidence` measures what the bands give away."""

_TOLD: Final = (
    *("decision", "benchmark", "rules", "pairs", "missing", "missing_p", "alpha", "alpha_spent", "visible"),
    *("draws", "looked_at", "one_answer", "interrupted"),
)
"""The fields of a verdict that say nothing of its sealed scores."""

_CHECKS: Final = (
    (" looked worse and is worse by ", "no template that lost"),
    (" confirmed of ", "no confirmed regression"),
    ("p ", "the test"),
    ("e-value ", "the test"),
    ("mean difference ", "the margin"),
    ("cost ", "the cost"),
    ("the challenger's cost ", "the cost"),
    ("there is no pair that both arms passed", "the cost"),
)
"""Part of a failed check's reason (its beginning, or one after a space), and the words that are told instead."""

_OTHER = "another check"


def difference_band(mean_delta: int | None) -> Band:
    """The band of a mean difference in millionths."""
    if mean_delta is None:
        return "not computed"
    if abs(mean_delta) <= WIDTH:
        return "about equal"
    return "better" if mean_delta > 0 else "worse"


def success_fifth(arm: ArmSummary) -> int | None:
    """The fifth in which the share of passed runs lies, 0 to 4; None if no run was compared."""
    return min(4, 5 * arm.passed // arm.runs) if arm.runs else None


def success_band(arm: ArmSummary) -> str:
    """The fifth in which the share of passed runs lies, such as `0.2 to 0.4`."""
    fifth = success_fifth(arm)
    if fifth is None:
        return "not computed"
    return f"{decimal(fifth * 200_000)} to {decimal((fifth + 1) * 200_000)}"


def coarse_reasons(verdict: Verdict) -> tuple[str, ...]:
    """The reasons without figures of the sealed part; those of a void verdict are about missing runs and stay."""
    if verdict.decision == "void":
        return verdict.reasons
    if verdict.decision == "promote":
        return ("every check is met",)
    names = dict.fromkeys(map(_name_check, verdict.reasons))
    return tuple(f"{name} is not met" for name in names)


def _name_check(why: str) -> str:
    """The name of the check that gives this reason."""
    return next((name for part, name in _CHECKS if (part in why if part[0] == " " else why.startswith(part))), _OTHER)


def explain_bands(verdict: Verdict) -> list[tuple[str, str]]:
    """Label and text of each row that may be told while the benchmark can still judge."""
    used = f"alpha {decimal(verdict.alpha)}; total spent on the benchmark {decimal(verdict.alpha_spent)}"
    costs = f"challenger {dollars(verdict.challenger.cost)}, champion {dollars(verdict.champion.cost)}"
    return [
        ("decision", verdict.decision),
        ("reasons", "; ".join(coarse_reasons(verdict))),
        ("champion", f"{verdict.champion.artifact}: {success_band(verdict.champion)} of its runs passed"),
        ("challenger", f"{verdict.challenger.artifact}: {success_band(verdict.challenger)} of its runs passed"),
        *describe_claim(verdict),
        ("ledger", used),
        ("mean difference", _describe_band(difference_band(verdict.mean_delta))),
        (
            "missing",
            f"{count_noun(verdict.missing, 'run pair')}, {count_noun(verdict.pairs, 'sealed instance')} compared",
        ),
        ("costs", costs),
        (
            "not told",
            "sealed figures, while the benchmark can judge; --spend tells them and costs one challenger's alpha",
        ),
    ]


def _describe_band(band: Band) -> str:
    if band == "about equal":
        return f"about equal: at most {decimal(WIDTH)} apart"
    return band if band == "not computed" else f"{band} by more than {decimal(WIDTH)}"


def hide_figures(verdict: Mapping[str, Any], read: Verdict) -> dict[str, Any]:
    """A verdict as in its event, with each figure of the sealed part null or empty, and `bands` beside them."""
    hidden = {name: _hide(name, value, read) for name, value in verdict.items()}
    bands = {
        "mean_delta": difference_band(read.mean_delta),
        "champion": success_band(read.champion),
        "challenger": success_band(read.challenger),
    }
    return {**hidden, "bands": bands}


def _hide(name: str, value: object, read: Verdict) -> object:
    if name in _TOLD:
        return value
    if name == "reasons":
        return list(coarse_reasons(read))
    if name in {"champion", "challenger"} and isinstance(value, Mapping):
        return {key: each if key in {"artifact", "runs", "cost"} else None for key, each in value.items()}
    return [] if isinstance(value, list | tuple) else None
