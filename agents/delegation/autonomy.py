"""Autonomy levels: which mechanisms a level turns on, and which level a configuration complies with. Pure.

| level | what a loop may do by itself |
|---|---|
| A0 | one delegation, no iteration |
| A1 | iterate on its own results, within a budget |
| A2 | plan, diagnose, and change its strategy after a stall |
| A3 | write skills and tools |
| A4 | open sub-managers |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from eventlog.events import LoopConfig

AutonomyLevel = Literal["A0", "A1", "A2", "A3", "A4"]
LEVELS: Final[tuple[AutonomyLevel, ...]] = ("A0", "A1", "A2", "A3", "A4")


def compliance(config: LoopConfig) -> Mapping[str, bool]:
    """The mechanisms of the levels, each with whether a configuration turns it on."""
    return {
        "A1 iterates": config.budget.max_loops > 1,
        "A1 rolling summary": config.summary.enabled,
        "A2 plans": config.planning.enabled,
        "A2 diagnoses": config.planning.diagnosis,
        "A2 detects stalls": config.stall_detection.enabled,
        "A2 switches strategy": config.stall_detection.strategy_switching,
        "A3 writes skills": config.skills.enabled,
        "A3 writes tools": config.tools.enabled,
        "A4 opens sub-managers": config.budget.max_depth > 0 and config.budget.max_total_submanagers_per_run > 0,
    }


def autonomy_of(config: LoopConfig) -> AutonomyLevel:
    """The highest level whose mechanisms, and those of the levels below it, are all on."""
    on, reached = compliance(config), LEVELS[0]
    for level in LEVELS[1:]:
        if not all(is_on for name, is_on in on.items() if name.startswith(level)):
            return reached
        reached = level
    return reached


def config_for(level: AutonomyLevel, config: LoopConfig | None = None) -> LoopConfig:
    """A configuration with the mechanisms of a level on, and those above it off."""
    found, rank = config or LoopConfig(), LEVELS.index(level)
    budget = found.budget.model_copy(
        update={} if rank >= 4 else {"max_depth": 0, "max_total_submanagers_per_run": 0}  # noqa: PLR2004 the last level
    )
    if rank == 0:
        budget = budget.model_copy(update={"max_loops": 1})
    is_on = {name: name.startswith(LEVELS[1 : rank + 1]) for name in compliance(found)}
    planning = found.planning.model_copy(update={"enabled": is_on["A2 plans"], "diagnosis": is_on["A2 diagnoses"]})
    stall = found.stall_detection.model_copy(
        update={"enabled": is_on["A2 detects stalls"], "strategy_switching": is_on["A2 switches strategy"]}
    )
    return found.model_copy(
        update={
            "budget": budget,
            "summary": found.summary.model_copy(update={"enabled": is_on["A1 rolling summary"]}),
            "planning": planning,
            "stall_detection": stall,
            "skills": found.skills.model_copy(update={"enabled": is_on["A3 writes skills"]}),
            "tools": found.tools.model_copy(update={"enabled": is_on["A3 writes tools"]}),
        }
    )
