"""Policies of the demonstration: a base model in this process, with or without a checkpoint."""

from __future__ import annotations

from agents.executors.policy import PolicyExecutor
from agents.models.model import Model

from .stage import Scene


def policy(scene: Scene, model: Model) -> PolicyExecutor:
    """Executor of a model, with the same brief wording as its demonstrations."""
    return PolicyExecutor(model, wording="brief", max_tokens=scene.effort.max_tokens)
