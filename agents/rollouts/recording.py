"""Recording of a run: what log and blobs hold of it, as input of a replay. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eventlog.events import InstanceReset, ModelCalled, RewardGraded, RunFinished, RunStarted, Sampling, StepTaken
from projections.costs import PriceBook

from ..executors.executor import Assignment
from ..learning.advice import Audience
from ..learning.occasions import OccasionPiece
from ..models.model import Finish
from ..plans import Overlaid, Plan
from .drawing import drawing_seed

if TYPE_CHECKING:
    from eventlog.blobs.conversations import Json

Lines = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A recorded model call: its step, the number of its messages, its parameters, its answer, and what ended that."""

    step: int | None
    messages: int
    sampling: Sampling
    text: str
    finish: Finish
    constrained: bool


@dataclass(frozen=True, slots=True)
class Conversation:
    """The conversation of a policy's run: its messages as plain JSON, each call, and the pictures by address.

    `told` gives the pieces that an audience is told now in the run; None if its template is not in the log.
    A demonstration is told `said` instead, lines of what memory changed in its plan.
    """

    messages: Sequence[Mapping[str, Json]]
    calls: tuple[RecordedCall, ...]
    pictures: Mapping[str, bytes]
    told: Callable[[Audience], tuple[OccasionPiece, ...]] | None
    said: Callable[[int], tuple[str, ...]] | None = None


@dataclass(frozen=True, slots=True)
class KeptRun:
    """What a record holds of a run besides pages: its model calls, and what it is told now if nothing else says it.

    `told` is as in Conversation, for a run that `is_told` memory. If it `has_site`, what its site answered was kept, so
    that whoever has its agent can play it again. If it `walks_plan`, its plan is walked again over recorded outcomes.
    """

    calls: tuple[ModelCalled, ...]
    is_told: bool
    told: Callable[[Audience], tuple[OccasionPiece, ...]] | None
    has_site: bool = False
    walks_plan: bool = False


@dataclass(frozen=True, slots=True)
class Recording:
    """Records of one run from the log and its blobs. A field of None is missing and is not compared.

    `plan` is the recorded executed plan, `texts` the pages by address. `derived` is the plan derived now from template
    and memory, `memory` the digest of the memory rebuilt now at its position, `book` the prices of its grading. A
    policy's run, and a demonstration, has a `conversation`; `kept` is None for a plan that walked recorded pages.
    """

    started: RunStarted
    reset: InstanceReset | None
    steps: tuple[StepTaken, ...]
    finished: RunFinished
    graded: RewardGraded | None
    plan: Plan
    texts: Mapping[str, str]
    derived: Overlaid | None
    memory: str | None
    end_state: bytes | None
    book: PriceBook | None
    conversation: Conversation | None = None
    kept: KeptRun | None = None

    def assignment(self, advice: tuple[str, ...], guidance: str) -> Assignment:
        """The run's assignment again, with this advice and guidance told."""
        started = self.started
        return Assignment(
            instruction=started.task_spec.instruction,
            plan=self.plan,
            max_steps=started.task_spec.max_steps,
            seed=drawing_seed(started.spec),
            temperature_micro=started.spec.temperature_micro or 0,
            advice=advice,
            guidance=guidance,
        )


@dataclass(frozen=True, slots=True)
class ReplayCheck:
    """One comparison with the record. `actual` is None if it cannot be computed, and `why` gives the reason."""

    name: str
    expected: Lines
    actual: Lines | None
    why: str = ""
    where: str = ""
