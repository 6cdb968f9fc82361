"""Reads of an environment that never raise, for code in which a failed read must not end a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpx2

from ..contract import Instance
from ..environment import Environment
from ..errors import EnvironmentFailure
from .client import EnvClient

ONLY = ""
"""Instance of a server that has only one."""


def fetch_mutations(
    url: str,
    admin_token: str,
    *,
    since_id: int = 0,
    timeout_s: float = 10.0,
    instance: Instance | str = ONLY,
    extra_headers: Mapping[str, str] | None = None,
    transport: httpx2.BaseTransport | None = None,
) -> dict[str, Any]:
    """Return `{"mutations": [...]}` with ids above `since_id`; on any failure an empty list, and `error` says why.

    `url` is the admin surface's address. A site that serves many instances needs `instance`.
    """
    try:
        with EnvClient(
            url, admin_token, timeout_s=timeout_s, extra_headers=extra_headers, transport=transport
        ) as client:
            return read_mutations(client, instance, since_id)
    except EnvironmentFailure as problem:
        return {"mutations": [], "error": str(problem)}


def read_mutations(client: Environment, instance: Instance | str, since_id: int) -> dict[str, Any]:
    """Same as `fetch_mutations`, with a client that is already connected."""
    try:
        found = client.mutations(instance, since_id)
    except EnvironmentFailure as problem:
        return {"mutations": [], "error": str(problem)}
    return {"mutations": [mutation.model_dump(mode="json") for mutation in found]}


def grade_run(
    url: str,
    admin_token: str,
    task_id: str,
    *,
    timeout_s: float = 30.0,
    instance: Instance | str = ONLY,
    extra_headers: Mapping[str, str] | None = None,
    transport: httpx2.BaseTransport | None = None,
) -> dict[str, Any]:
    """Return the oracle's grade: task_id, passed, score_micro, reasons, diff.

    On any failure return `{"task_id": ..., "error": ...}`: no grade, which differs from a grade of zero.
    """
    try:
        with EnvClient(
            url, admin_token, timeout_s=timeout_s, extra_headers=extra_headers, transport=transport
        ) as client:
            return client.oracle(instance, task_id).model_dump(mode="json")
    except EnvironmentFailure as problem:
        return {"task_id": task_id, "error": str(problem)}


def last_mutation_id(mutations: Sequence[Mapping[str, Any]]) -> int:
    """Return the highest id among mutations, 0 if there is none."""
    ids = (mutation.get("id") for mutation in mutations)
    return max((found for found in ids if isinstance(found, int)), default=0)
