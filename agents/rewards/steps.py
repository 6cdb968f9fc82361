"""The step reward of an oracle: mutations that a step was meant to cause, each paid once. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

DEFAULT_VALUE: Final = 100_000
"""Micro-reward of a matching mutation (the seeds' 0.1)."""

MutationKey = tuple[str, str, str]
"""Operation, target type and target id: what counts as the same change, whatever its id, time and payload."""

Delta = Iterable[object] | None


def oracle_step_reward(delta: Delta, expected_ops: Collection[str], value: int = DEFAULT_VALUE) -> int:
    """`value` (micro) for each mutation of `delta` whose `operation` is expected; 0 where there is nothing to see.

    Linear in the matching mutations: it pays a repetition again. What isn't a mutation counts for nothing.
    """
    return value * sum(operation_of(mutation) in expected_ops for mutation in delta or ())


def operation_of(mutation: object) -> str | None:
    """The operation of a mutation; None where it is none. It is called `op` by some sites."""
    if not isinstance(mutation, Mapping):
        return None
    operation = mutation.get("operation", mutation.get("op"))
    return operation if isinstance(operation, str) and operation else None


def mutation_key(mutation: object) -> MutationKey | None:
    """What a mutation is paid for once; None where it is no mutation."""
    operation = operation_of(mutation)
    if operation is None or not isinstance(mutation, Mapping):
        return None
    return operation, str(mutation.get("target_type", "")), str(mutation.get("target_id", ""))


def unpaid_keys(
    delta: Delta, expected_ops: Collection[str], paid: Collection[MutationKey], at_most: int
) -> tuple[MutationKey, ...]:
    """The keys of `delta` that are expected and not paid yet, each once and in order; `at_most` (>= 0) of them."""
    found: dict[MutationKey, None] = {}
    for mutation in delta or ():
        key = mutation_key(mutation)
        if key is not None and key[0] in expected_ops and key not in paid:
            found[key] = None
    return tuple(found)[:at_most]
