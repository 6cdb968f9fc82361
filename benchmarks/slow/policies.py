"""Policies of the demonstration: a base model in this process, with a checkpoint on it or without."""

from __future__ import annotations

from agents.executors.policy import PolicyExecutor
from agents.models.model import Model

from .stage import Scene


def policy(scene: Scene, model: Model) -> PolicyExecutor:
    """The executor of a model, told as briefly as its demonstrations were."""
    return PolicyExecutor(model, wording="brief", max_tokens=scene.effort.max_tokens)
