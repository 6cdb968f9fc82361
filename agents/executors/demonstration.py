"""Demonstrations: a plan, walked as a policy's conversation, so that a model can learn from it how to answer.

What is told and how it is answered is the policy executor's doing alone. Only who answers is another: the plan does.
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
from .executor import Assignment, Execution, Watch, no_verification
from .policy import Opening, PolicyExecutor, over_http

NAME: Final = DEMONSTRATION
LONGEST_ANSWER: Final = 1 << 16

_DONE: Final = Step(type="finish", intent="say that it is done")
_NO_TOKENS: Final = Offers(logprobs=False, token_ids=False, seed=False, images=False, schema=False)


@dataclass(frozen=True, slots=True)
class Demonstrator:
    """The executor that says what a plan says, step by step, and finishes at its end or after what failed.

    Its runs hold text and no token ids: they are tokenised once, when a dataset is built of them.
    """

    opening: Opening = over_http
    wording: Wording = "full"
    name: str = NAME
    offers_logprobs: bool = False

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        """See Executor."""
        model = Scripted(lambda request: _answer(assignment.plan, request), name="plan", offers=_NO_TOKENS)
        policy = PolicyExecutor(model, opening=self.opening, max_tokens=LONGEST_ANSWER, wording=self.wording)
        return policy.execute(assignment, instance, watch)


def _answer(plan: Plan, request: CompletionRequest) -> str:
    """The next step of the plan, as far as all before it went well."""
    said = sum(message.role == "assistant" for message in request.messages)
    went_well = said == 0 or request.messages[-1].text.startswith("ok")
    return answer_of(plan[said] if went_well and said < len(plan) else _DONE)
