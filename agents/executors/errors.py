"""Errors of executors that are raised before any run."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class NoLogprobs(FlywheelError):
    """The runs of the executor {actual!r} cannot be trained on: its model gives no token ids with their logprobs; expected
    a policy whose model offers both. Serve the model with vLLM and set FLYWHEEL_MODEL_TOKEN_IDS."""


class NotServed(FlywheelError):
    """No model serves the weights {actual}: expected one of {expected}. Name a model that loads checkpoints: set FLYWHEEL_MODEL to
    transformers: and the folder of their base, or FLYWHEEL_MODEL_BASE to the digest of the base that a vLLM endpoint serves."""
