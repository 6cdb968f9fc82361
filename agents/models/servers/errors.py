"""Errors of serving a base or a challenger. They come before any server is started."""

from __future__ import annotations

from ..errors import ModelFailure


class ServingRefused(ModelFailure):
    """{message}."""


class ChallengerAmbiguous(ServingRefused):
    """Two challengers are named, {actual}: expected one. Leave one of them out."""


class ChallengerUnfit(ServingRefused):
    """The challenger cannot be served: {actual}; expected {expected}."""


class ReferenceUnreadable(ServingRefused):
    """The reference {actual!r} names no place: expected /absolute/path or volume:/absolute/path."""


class ReferenceUnmounted(ServingRefused):
    """The volume {volume!r} of the reference {actual} is not mounted: expected one of {expected}. Mount it read-only, or name another."""


class ReferenceMissing(ServingRefused):
    """Nothing lies at the reference {actual}, which is {path} here: expected an adapter or a model. Publish it first."""


class AdaptersFixed(ServingRefused):
    """The server {url} loads no adapters while it runs (it answered {said}): expected vLLM with --enable-lora and
    VLLM_ALLOW_RUNTIME_LORA_UPDATING=True."""
