"""Step reward from an oracle: mutations that a step was expected to cause, each paid once. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

DEFAULT_VALUE: Final = 100_000
"""Micro-reward of a matching mutation (the seeds' 0.1)."""

MutationKey = tuple[str, str, str]
"""Operation, target type and target id: identifies the same change, regardless of its id, time and payload."""

Delta = Iterable[object] | None


def oracle_step_reward(delta: Delta, expected_ops: Collection[str], value: int = DEFAULT_VALUE) -> int:
    """`value` (micro) for each mutation of `delta` whose `operation` is expected; 0 without a delta.

    It is linear, so a repeated mutation is paid again. Entries that are not mutations count for nothing.
    """
    return value * sum(operation_of(mutation) in expected_ops for mutation in delta or ())


def operation_of(mutation: object) -> str | None:
    """Operation of a mutation, which some sites call `op`; None if it has none."""
    if not isinstance(mutation, Mapping):
        return None
    operation = mutation.get("operation", mutation.get("op"))
    return operation if isinstance(operation, str) and operation else None


def mutation_key(mutation: object) -> MutationKey | None:
    """Key by which a mutation is paid once; None for an entry that is not a mutation."""
    operation = operation_of(mutation)
    if operation is None or not isinstance(mutation, Mapping):
        return None
    return operation, str(mutation.get("target_type", "")), str(mutation.get("target_id", ""))


def unpaid_keys(
    delta: Delta, expected_ops: Collection[str], paid: Collection[MutationKey], at_most: int
) -> tuple[MutationKey, ...]:
    """Keys of expected mutations in `delta` that are not paid yet, each once and in order; at most `at_most` (>= 0)."""
    found: dict[MutationKey, None] = {}
    for mutation in delta or ():
        key = mutation_key(mutation)
        if key is not None and key[0] in expected_ops and key not in paid:
            found[key] = None
    return tuple(found)[:at_most]
