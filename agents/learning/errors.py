"""Errors of embedding models."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class EmbeddingsUnfit(FlywheelError):
    """The embedding model {path} cannot be read: {actual}; expected {expected}. Name the folder of a static embedding
    model."""


class EmbeddingsMissing(FlywheelError):
    """This memory is matched by an embedding model, and this process has {actual}: expected the model with digest
    {expected}. Set FLYWHEEL_EMBEDDINGS to its folder."""


class EmbeddingsOther(FlywheelError):
    """This memory is matched by another embedding model than the one of this process, which has the digest {actual}:
    expected {expected}. Set FLYWHEEL_EMBEDDINGS to the folder of that model."""
