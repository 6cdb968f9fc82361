"""The first call of a model that plays or that an agent asks, made before any run depends on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from agents.executors.actions import SHAPES, Sight
from agents.executors.delegation.executor import DelegationExecutor
from agents.executors.endpoint import EndpointPolicies
from agents.executors.executor import Executor
from agents.executors.outside.executor import AgentExecutor
from agents.executors.policy import PolicyExecutor
from agents.models.errors import LogprobsMissing
from agents.models.model import ChatMessage, CompletionRequest, Model, WithoutLogprobs
from agents.models.structured import answer_schema
from eventlog.events import Sampling

_QUESTION: Final = ChatMessage("user", ("There is nothing to do. Answer with the action finish.",))
_LONGEST: Final = 16


def ask_first(executor: Executor, may_lack: Callable[[LogprobsMissing], bool]) -> Executor:
    """Ask the model server of an executor one short question and return the executor to play with.

    A dead address, a refused key or an unknown model would otherwise make every run missing. Where a server loads
    weights, its base is asked. If it returns no logprobs although the settings promise them, `may_lack` decides whether
    to play without them. Nothing is asked where there is no server, or another Flywheel. Raises ModelFailure.
    """
    if isinstance(executor, DelegationExecutor):
        policy = ask_first(executor.policy, may_lack)
        return replace(executor, policy=policy) if isinstance(policy, PolicyExecutor | EndpointPolicies) else executor
    if isinstance(executor, PolicyExecutor):
        is_whole = _answers_whole(executor.model, executor.sight, may_lack)
        return executor if is_whole else replace(executor, model=WithoutLogprobs(executor.model))
    if isinstance(executor, EndpointPolicies):
        return replace(executor, lacks_logprobs=not _answers_whole(executor.model, "text", may_lack))
    if isinstance(executor, AgentExecutor) and executor.server is not None:
        with executor.server() as model:
            _answers_whole(model, None, may_lack)
    return executor


def _answers_whole(model: Model, sight: Sight | None, may_lack: Callable[[LogprobsMissing], bool]) -> bool:
    """True if a model answers with all that it offers; False if it may lack its logprobs. Raises ModelFailure.

    Without a `sight` the answer is bound to no schema.
    """
    schema = answer_schema(SHAPES[sight]) if sight is not None and model.offers.schema else None
    sampling = Sampling(temperature_micro=0, max_tokens=_LONGEST, wants_logprobs=model.offers.logprobs)
    try:
        model.complete(CompletionRequest((_QUESTION,), sampling, schema))
    except LogprobsMissing as failure:
        if not may_lack(failure):
            raise
        return False
    return True
