"""The root over the chain values of a segment, as RFC 6962 §2.1 builds its tree. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

_LEAF = b"\x00"
_NODE = b"\x01"


def root(leaves: Iterable[bytes]) -> bytes:
    """The root over leaves in this order, 32 bytes; of none, the SHA-256 of nothing.

    Only the roots of whole subtrees are kept, one for each level, so any number of leaves may stream by.
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
