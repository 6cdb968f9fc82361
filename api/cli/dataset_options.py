"""Options of `flywheel dataset build` and `slice`, and the query they define."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from eventlog.events import Query, Tokens, query_of

_MICRO = 1_000_000


class DatasetKind(StrEnum):
    """Training method that the rows are for."""

    SFT = "sft"
    DPO = "dpo"
    GRPO = "grpo"


class Runs(StrEnum):
    """Source of the runs."""

    PLAN = "plan"
    POLICY = "policy"
    DEMONSTRATION = "demonstration"


class Reward(StrEnum):
    """Reward of a run to use."""

    SCORE = "score"
    VALUE = "value"
    SHAPED = "shaped"


class AdvantageScale(StrEnum):
    """Divisor of the differences to a group's mean."""

    GROUP = "group"
    NONE = "none"


KindOf = Annotated[DatasetKind, typer.Argument(help="Training method that the rows are for.")]
MinScore = Annotated[float | None, typer.Option(min=0.0, max=1.0, help="sft: runs at or above this score [1.0].")]
BestOfGroup = Annotated[bool | None, typer.Option("--best-of-group", help="sft: only the best run of each group.")]
RunsOf = Annotated[Runs | None, typer.Option(help="sft: source of the runs [plan].")]
BaseOf = Annotated[
    Path | None,
    typer.Option(help="sft, dpo: base model folder; tokenises demonstrations, and answers without token ids."),
]
RewardOf = Annotated[
    Reward | None,
    typer.Option(help="Reward to use: score, value (R) or shaped return [dpo score, grpo shaped]."),
]
MinReward = Annotated[float | None, typer.Option(help="sft: runs whose --reward is at least this.")]
Margin = Annotated[
    float | None,
    typer.Option(min=0.000001, max=10.0, help="dpo: minimum reward difference of chosen and rejected [0.05]."),
]
MaxPairs = Annotated[int | None, typer.Option(min=1, max=10_000, help="dpo: maximum pairs per group [4].")]
Ddof = Annotated[int | None, typer.Option(min=0, max=1, help="grpo: divide the variance by n (0) or n - 1 (1) [1].")]
Eps = Annotated[str | None, typer.Option(help="grpo: constant added to the standard deviation [0.0001].")]
Scale = Annotated[
    AdvantageScale | None, typer.Option(help="grpo: divide advantages by the group's deviation, or not [group].")
]
Environment = Annotated[str | None, typer.Option(help="Only runs on this site.")]
Sweep = Annotated[list[str] | None, typer.Option(help="Only runs of this sweep; may be repeated for several sweeps.")]

JudgedBy = Annotated[
    str | None,
    typer.Option(
        "--judged-by",
        metavar="JUDGE",
        help="sft: runs that no oracle graded and this judge passed, such as MODEL/judge-1; needs --environment.",
    ),
]

OutsideOf = Annotated[
    list[str] | None,
    typer.Option(
        "--outside",
        metavar="none|all|TOKEN",
        help="Which runs of agents outside to take: none, all, or those begun with this token; may be repeated [none].",
    ),
]

_OF_KIND = {
    DatasetKind.SFT: {"judged_by", "min_score", "best_of_group", "runs", "reward", "min_reward", "tokens"},
    DatasetKind.DPO: {"reward", "margin", "max_pairs", "tokens"},
    DatasetKind.GRPO: {"reward", "ddof", "eps", "scale"},
}
_ANY = {"environment", "sweep", "group", "outside"}


def refuse_untokenised(runs: Runs | None, base: Path | None) -> None:
    """Raise BadParameter if demonstrations are asked for without `--base`, whose tokenizer they need."""
    if runs is Runs.DEMONSTRATION and base is None:
        raise typer.BadParameter("--runs demonstration needs --base; expected the folder of a base model")


def query_from_options(kind: DatasetKind, **options: Any) -> Query:
    """The query defined by options (None: not given). Raises BadParameter for options of another kind."""
    given = {name: value for name, value in options.items() if value is not None}
    given["outside"] = _outside(given.get("outside") or ["none" if "group" not in given else "all"])
    for name in sorted(given.keys() - _OF_KIND[kind] - _ANY):
        raise typer.BadParameter(f"a dataset for {kind.value} has no --{name.replace('_', '-')}")
    if kind is DatasetKind.SFT:
        given |= _floor(given.pop("reward", None), given.pop("min_reward", None))
    if "min_score" in given:
        given["min_score"] = round(given["min_score"] * _MICRO)
    if "margin" in given:
        given["margin"] = round(given["margin"] * _MICRO)
    try:
        return query_of({"kind": kind.value, **{name: _plain(value) for name, value in given.items()}})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise typer.BadParameter(f"--{first['loc'][-1]} is {first['input']!r}: {first['msg']}") from error


def _outside(names: list[str]) -> str | list[str]:
    """`none` or `all`, which stand alone, or names of tokens."""
    if names in (["none"], ["all"]):
        return names[0]
    if {"none", "all"} & set(names):
        raise typer.BadParameter(f"--outside is {', '.join(names)}; expected none, all, or names of tokens alone")
    return names


def _floor(reward: Reward | None, least: float | None) -> dict[str, Any]:
    if reward is None and least is None:
        return {}
    if reward is None or least is None:
        raise typer.BadParameter("--reward and --min-reward go together; expected both or neither")
    return {"floor": {"reward": reward.value, "least": round(least * _MICRO)}}


def _plain(value: Any) -> Any:
    if isinstance(value, Tokens):
        return value.model_dump()
    if isinstance(value, list):
        return tuple(value)
    return value.value if isinstance(value, StrEnum) else value
