"""Errors of executors that are raised before any run."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class NoLogprobs(FlywheelError):
    """The runs of the executor {actual!r} cannot be trained on: its model gives no token ids with their logprobs; expected
    a policy whose model offers both. Serve the model with vLLM and set FLYWHEEL_MODEL_TOKEN_IDS."""


class NotServed(FlywheelError):
    """No model serves the weights {actual}: expected one of {expected}. Serve the checkpoint and name its model in the settings first."""
