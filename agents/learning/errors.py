"""What goes wrong with what memory is matched by."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class EmbeddingsUnfit(FlywheelError):
    """The embedding model {path} cannot be read: {actual}; expected {expected}. Name the folder of a static embedding model."""


class EmbeddingsMissing(FlywheelError):
    """What was remembered here is matched by an embedding model, and this process has {actual}: expected the one of the digest
    {expected}. Set FLYWHEEL_EMBEDDINGS to its folder."""


class EmbeddingsOther(FlywheelError):
    """What was remembered here is matched by another embedding model than that of this process: it has the digest {actual}, expected
    {expected}. Set FLYWHEEL_EMBEDDINGS to the folder that has it."""
