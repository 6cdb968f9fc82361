"""Demonstrations: a plan executed as a policy's conversation, so that a model can learn from it how to answer.

Prompts and form of the answers are the policy executor's. Only the content of the answers comes from the plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eventlog.events import Step
from projections.runs import DEMONSTRATION

from ..envs.contract import Instance
from ..models.model import CompletionRequest, Offers
from ..models.scripted import Scripted
from ..plans import Plan
from .actions import Wording, answer_of
from .executor import LACKS, Assignment, Execution, Watch, no_verification
from .policy import Opening, PolicyExecutor, over_http

NAME: Final = DEMONSTRATION
LONGEST_ANSWER: Final = 1 << 16

_DONE: Final = Step(type="finish", intent="say that it is done")
NO_TOKENS: Final = Offers(logprobs=False, token_ids=False, seed=False, images=False, schema=False)


@dataclass(frozen=True, slots=True)
class Demonstrator:
    """Executor that answers with the steps of a plan, and finishes at its end or after a failed step.

    An optional step whose control is missing did not fail: the next one follows, as where a plan is walked.
    Its runs contain text without token ids. They are tokenised once, when a dataset is built from them.
    """

    opening: Opening = over_http
    wording: Wording = "full"
    name: str = NAME
    offers_logprobs: bool = False

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        """See Executor."""
        model = Scripted(lambda request: _answer(assignment.plan, request), name="plan", offers=NO_TOKENS)
        policy = PolicyExecutor(model, opening=self.opening, max_tokens=LONGEST_ANSWER, wording=self.wording)
        return policy.execute(assignment, instance, watch)


def _answer(plan: Plan, request: CompletionRequest) -> str:
    """The next step of the plan; `finish` at its end or after a failed step."""
    said = sum(message.role == "assistant" for message in request.messages)
    went_on = said == 0 or (said <= len(plan) and _is_passed_over(plan[said - 1], request.messages[-1].text))
    return answer_of(plan[said] if went_on and said < len(plan) else _DONE)


def _is_passed_over(step: Step, told: str) -> bool:
    """True if the plan goes on after a step, by what the policy was told of it: it went well, or may be left out."""
    return told.startswith("ok") or (step.optional and told.startswith(tuple(LACKS)))
