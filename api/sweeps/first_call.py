"""The first call of a policy's model, made before any run depends on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from agents.executors.actions import SHAPES
from agents.executors.delegation.executor import DelegationExecutor
from agents.executors.executor import Executor
from agents.executors.policy import PolicyExecutor
from agents.models.errors import LogprobsMissing
from agents.models.model import ChatMessage, CompletionRequest, WithoutLogprobs
from agents.models.structured import answer_schema
from eventlog.events import Sampling

_QUESTION: Final = ChatMessage("user", ("There is nothing to do. Answer with the action finish.",))
_LONGEST: Final = 16


def ask_first(executor: Executor, may_lack: Callable[[LogprobsMissing], bool]) -> Executor:
    """Ask a policy's model one short question and return the executor to play with; other executors are not asked.

    A dead address, a refused key or an unknown model would otherwise make every run missing. If the server returns no
    logprobs although the settings promise them, `may_lack` decides whether to play without them. Raises ModelFailure.
    """
    if isinstance(executor, DelegationExecutor) and isinstance(executor.policy, PolicyExecutor):
        policy = ask_first(executor.policy, may_lack)
        return replace(executor, policy=policy) if isinstance(policy, PolicyExecutor) else executor
    if not isinstance(executor, PolicyExecutor):
        return executor
    model = executor.model
    schema = answer_schema(SHAPES[executor.sight]) if model.offers.schema else None
    sampling = Sampling(temperature_micro=0, max_tokens=_LONGEST, wants_logprobs=model.offers.logprobs)
    try:
        model.complete(CompletionRequest((_QUESTION,), sampling, schema))
    except LogprobsMissing as failure:
        if not may_lack(failure):
            raise
        return replace(executor, model=WithoutLogprobs(model))
    return executor
