"""What may be told of an evaluation whose benchmark can still judge: the decision. Pure.

Whoever reads more of the sealed part can choose the next challenger by it. That one is then judged on instances that it
was chosen on, and its alpha no longer bounds the chance of a false promotion.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eventlog.events import ArmSummary, Artifact, Rules, Verdict, Visible

from .explain import describe_claim, describe_visible
from .figures import decimal

_TOLD: Final = frozenset(
    {"decision", "benchmark", "rules", "alpha", "alpha_spent", "visible", "one_answer"},
)
"""The fields of a verdict that say nothing of its sealed part."""

_OF_VOID: Final = frozenset({"pairs", "missing", "missing_p"})
"""What a void verdict tells besides: why the arms cannot be compared."""


def tell_reasons(verdict: Verdict) -> tuple[str, ...]:
    """The reasons as far as they follow from the decision; those of a void verdict are about lost runs and stay.

    Which check failed is a figure of the sealed part, cut in two.
    """
    match verdict.decision:
        case "void":
            return verdict.reasons
        case "promote":
            return ("every check is met",)
        case _:
            return ("not every check is met",)


def explain_decision(verdict: Verdict) -> list[tuple[str, str]]:
    """Label and text of each row that may be told while the benchmark can still judge."""
    used = f"alpha {decimal(verdict.alpha)}; total spent on the benchmark {decimal(verdict.alpha_spent)}"
    return [
        ("decision", verdict.decision),
        ("reasons", "; ".join(tell_reasons(verdict))),
        ("champion", str(verdict.champion.artifact)),
        ("challenger", str(verdict.challenger.artifact)),
        *describe_claim(verdict),
        ("ledger", used),
        ("visible instances", describe_visible(verdict)),
        (
            "not told",
            "all else, while the benchmark can judge; --spend tells it and costs one challenger's alpha",
        ),
    ]


def shows_figures(told: Mapping[str, Any]) -> bool:
    """True if a verdict as it is told has its sealed figures."""
    return told["champion"]["runs"] is not None


def read_told(told: Mapping[str, Any]) -> Verdict:
    """A verdict as it is told. Of one without its sealed figures, only what `explain_decision` reads may be read."""
    if shows_figures(told):
        return Verdict.model_validate(told, strict=False)
    make_part: Any = ArmSummary.model_construct  # the other fields are what is hidden
    arms = {
        name: make_part(artifact=Artifact.model_validate(told[name]["artifact"], strict=False))
        for name in ("champion", "challenger")
    }
    visible = None if told["visible"] is None else Visible.model_validate(told["visible"], strict=False)
    parts = {**arms, "rules": Rules.model_validate(told["rules"], strict=False), "visible": visible}
    lists = {name: tuple(told.get(name) or ()) for name in ("reasons", "one_answer")}
    return Verdict.model_construct(**{**told, **parts, **lists})


def hide_figures(verdict: Mapping[str, Any], read: Verdict) -> dict[str, Any]:
    """A verdict as in its event, with all that is told of the sealed part beside the decision null or empty."""
    return {name: _hide(name, value, read) for name, value in verdict.items()}


def _hide(name: str, value: object, read: Verdict) -> object:
    if name in _TOLD or (name in _OF_VOID and read.decision == "void"):
        return value
    if name == "reasons":
        return list(tell_reasons(read))
    if name in {"champion", "challenger"} and isinstance(value, Mapping):
        return {key: each if key == "artifact" else None for key, each in value.items()}
    return [] if isinstance(value, list | tuple) else None
