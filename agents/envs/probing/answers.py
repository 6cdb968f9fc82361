"""Tasks whose right answer is the same at every seed, told by what passing changes were aimed at. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from ..contract import Mutation
from ..foreign.answers import NOWHERE

FEWEST_SEEDS: Final = 3
"""Passed seeds that have to agree: of two, a task with few possible answers often has the same one by chance."""


def aim_of(changes: Sequence[Mutation]) -> str | None:
    """Aims of changes: their operations, targets and payloads in order; None if none has a target or a payload.

    Such changes say nothing of what was answered, so they look alike whatever it was.
    """
    if not any(each.target_id != NOWHERE or each.payload for each in changes):
        return None
    aims = [[each.operation, each.target_type, each.target_id, dict(each.payload)] for each in changes]
    return json.dumps(aims, sort_keys=True)


def is_one_answer(aims: Mapping[int, str]) -> bool:
    """True if the passing changes of enough seeds were aimed at the same."""
    return len(aims) >= FEWEST_SEEDS and len(set(aims.values())) == 1
