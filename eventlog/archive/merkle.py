"""Merkle root over the chain values of a segment (RFC 6962 §2.1). Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

_LEAF = b"\x00"
_NODE = b"\x01"


def root(leaves: Iterable[bytes]) -> bytes:
    """Merkle root (32 bytes) over leaves in this order; without leaves, the SHA-256 of the empty string.

    Keeps only the roots of complete subtrees, one for each level, so any number of leaves can be streamed.
    """
    whole: list[bytes] = []
    for count, leaf in enumerate(leaves, start=1):
        node = hashlib.sha256(_LEAF + leaf).digest()
        filled = count
        while filled % 2 == 0:
            node = hashlib.sha256(_NODE + whole.pop() + node).digest()
            filled //= 2
        whole.append(node)
    if not whole:
        return hashlib.sha256().digest()
    *lefts, node = whole
    for left in reversed(lefts):
        node = hashlib.sha256(_NODE + left + node).digest()
    return node
