"""Definitions for a what-if: another promotion rule or reward, read from TOML or JSON."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from agents.rewards import DEFAULT_LAMBDA, REWARD_VERSION
from eventlog.events import (
    FrozenModel,
    PairedRule,
    PriceBookSet,
    PromotionRule,
    RewardGraded,
    RewriteProposed,
    SeedsRule,
)
from eventlog.events.event import Count, Micro, Name, ScoreMicro
from eventlog.store import EventStore, Position

from ...errors import BadDefinition

M = TypeVar("M", bound=FrozenModel)

WHOLE = 1_000_000


class Prices(FrozenModel):
    """A price book in micro-dollars per action, second and thousand tokens."""

    per_action: Count
    per_second: Count
    per_thousand_input_tokens: Count
    per_thousand_output_tokens: Count


class RewardDefinition(FrozenModel):
    """`value = score_weight * score - penalty_weight * penalty`, weights in millionths. None: as recorded.

    `lambda_per_dollar` is in micro-score per dollar. `version` names the verifier. `pass_score` is the score (micro)
    from which a run passes; None: as the verifier decides.
    """

    lambda_per_dollar: Micro | None = None
    version: Name | None = None
    score_weight: Micro = WHOLE
    penalty_weight: Micro = WHOLE
    pass_score: ScoreMicro | None = None
    prices: Prices | None = None


def read_rule(file: Path) -> PromotionRule:
    """Read a rule from a file. Missing fields take the rule's defaults; without a `name` it is the seeds rule.

    Raises BadDefinition, OSError.
    """
    content = _content(file, "rule", ", ".join(SeedsRule.model_fields))
    if isinstance(content, dict) and content.get("name") == PairedRule().name:
        content = {key: _immutable(value) for key, value in content.items()}
        return _validate(file, PairedRule, "rule", content)
    return _validate(file, SeedsRule, "rule", content)


def read_reward(file: Path) -> RewardDefinition:
    """Read a reward from a file. Missing fields stay as recorded. Raises BadDefinition, OSError."""
    return _validate(
        file, RewardDefinition, "reward", _content(file, "reward", ", ".join(RewardDefinition.model_fields))
    )


def _content(file: Path, what: str, fields: str) -> Any:
    try:
        text = file.read_bytes().decode("utf-8")
        content = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:  # not UTF-8, not JSON or not TOML
        kind = "JSON" if file.suffix == ".json" else "TOML"
        raise BadDefinition(file=file, what=what, actual=f"it is not {kind} ({error})", expected=fields) from error
    if not content:
        raise BadDefinition(file=file, what=what, actual="it is empty", expected=f"one or more of {fields}")
    return content


def _immutable(value: Any) -> Any:
    """Convert lists to tuples, as the models require."""
    return tuple(_immutable(item) for item in value) if isinstance(value, list) else value


def _validate(file: Path, model: type[M], what: str, content: Any) -> M:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        fields = ", ".join(model.model_fields)
        raise BadDefinition(file=file, what=what, actual=f"{where}: {first['msg']}", expected=fields) from error


def rule_in_force(store: EventStore, upto: Position) -> PromotionRule:
    """Rule of the newest proposal; the default if there is none."""
    rule: PromotionRule = PairedRule.current()
    for item in store.read(types=("RewriteProposed",), upto=upto):
        if isinstance(item.event, RewriteProposed):
            rule = item.event.rule
    return rule


def reward_in_force(store: EventStore, upto: Position) -> RewardDefinition:
    """Lambda and verifier of the newest reward, and the newest prices; the defaults if there are none."""
    lambda_per_dollar, version, prices = DEFAULT_LAMBDA, REWARD_VERSION, None
    for item in store.read(types=("RewardGraded", "PriceBookSet"), upto=upto):
        match item.event:
            case RewardGraded():
                lambda_per_dollar, version = item.event.terms.lambda_per_dollar, item.event.version
            case PriceBookSet():
                prices = Prices(**item.event.model_dump(exclude={"type", "version"}))
            case _:
                pass
    return RewardDefinition(lambda_per_dollar=lambda_per_dollar, version=version, prices=prices)


def as_toml(definition: FrozenModel) -> str:
    """A definition as TOML that reads back as itself. None is left out; a nested definition is a table."""
    content = definition.model_dump(mode="json", exclude_none=True)
    tables = {name: value for name, value in content.items() if isinstance(value, dict)}
    lines = [f"{name} = {json.dumps(value)}" for name, value in content.items() if name not in tables]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    return "\n".join(lines)
