"""Reading an environment's mutations without ever raising, for places where a failed look must not end a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpx2

from .client import EnvClient
from .contract import Instance
from .errors import EnvironmentFailure


def fetch_mutations(
    url: str,
    admin_token: str,
    *,
    instance: Instance | str,
    since_id: int = 0,
    timeout_s: float = 10.0,
    extra_headers: Mapping[str, str] | None = None,
    transport: httpx2.BaseTransport | None = None,
) -> dict[str, Any]:
    """Return `{"mutations": [...]}` with ids above `since_id`; on any failure an empty list, and `error` says why.

    `url` is the admin surface's address.
    """
    try:
        with EnvClient(
            url, admin_token, timeout_s=timeout_s, extra_headers=extra_headers, transport=transport
        ) as client:
            found = client.mutations(instance, since_id)
    except EnvironmentFailure as problem:
        return {"mutations": [], "error": str(problem)}
    return {"mutations": [mutation.model_dump(mode="json") for mutation in found]}


def last_mutation_id(mutations: Sequence[Mapping[str, Any]]) -> int:
    """Return the highest id among mutations, 0 if there is none."""
    ids = (mutation.get("id") for mutation in mutations)
    return max((found for found in ids if isinstance(found, int)), default=0)
