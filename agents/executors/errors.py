"""What can be wrong with an executor before it plays anything."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class NoLogprobs(FlywheelError):
    """The runs of the executor {actual!r} cannot be trained on: its model gives no token ids with their logprobs; expected
    a policy whose model offers both. Serve the model with vLLM and say so in its settings (FLYWHEEL_MODEL_TOKEN_IDS)."""


class NotServed(FlywheelError):
    """No model serves the weights {actual}: expected one of {expected}. Serve the checkpoint and name its model before it is judged."""
