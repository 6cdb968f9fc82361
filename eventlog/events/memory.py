"""Memory as a position, the artifact that pairs it with weights, and what takes a piece out of memory."""

from __future__ import annotations

from typing import Literal

from .event import BlobAddress, Count, Event, FrozenModel, Name, ScoreMicro, Whole
from .plans import StepType
from .rewrites import PromotionRule

PieceKind = Literal["rewrite", "hint", "exemplar", "snippet", "recipe"]


class Memory(FrozenModel):
    """What an agent remembers: the folds named, at a log position, less the pieces in `without`.

    `digest` is the SHA-256 of the canonical content, which is kept as a blob.
    """

    upto: Count
    folds: dict[Name, Count]
    without: tuple[Name, ...]
    digest: BlobAddress


def artifact_name(weights: str, upto: int) -> str:
    """How an artifact is written: `base@0`, or `ck-3f9a1c22@18342` for a checkpoint digest."""
    return f"{weights if weights == 'base' else f'ck-{weights[:8]}'}@{upto}"


class Artifact(FrozenModel):
    """Weights and memory: what a champion is, what a challenger is, what every run is pinned to."""

    weights: Name
    memory: Memory

    def __str__(self) -> str:
        """See artifact_name."""
        return artifact_name(self.weights, self.memory.upto)


class Occasion(FrozenModel):
    """When a piece may help: at a step of this type and intent, on pages whose address is like `page`.

    In `page` numbers and other names that a seed makes are `*`. An empty intent or page is any.
    """

    environment: Name
    type: StepType
    intent: str
    page: str


PieceSource = Literal["recovery", "good_run", "authored", "imported"]
"""recovery: a failed run found it. good_run: a run that passed did it. authored: it came with a site. imported: from a
file that a person may have edited."""


class HintRecorded(Event):
    """Where something was seen that a step needs. `content` is a blob: the words of it, and the change that it makes.

    The rule that decides it rides along. A further event of the same hint brings it back, as with RewriteProposed.
    """

    type: Literal["HintRecorded"] = "HintRecorded"
    hint: Name
    occasion: Occasion
    content: BlobAddress
    rule: PromotionRule
    run: Name | None
    source: PieceSource
    confidence: ScoreMicro


class ExemplarCaptured(Event):
    """What a good run did at a step, with the reward of that run.

    `nudge` makes a like step act as that one did; `inject` takes its steps before a like step.
    """

    type: Literal["ExemplarCaptured"] = "ExemplarCaptured"
    exemplar: Name
    form: Literal["nudge", "inject"]
    occasion: Occasion
    content: BlobAddress
    reward: Whole
    rule: PromotionRule
    run: Name | None
    source: PieceSource


class SnippetLearned(Event):
    """A few steps that do one thing, learned from good runs or authored: they stand in for a step of the same topic."""

    type: Literal["SnippetLearned"] = "SnippetLearned"
    snippet: Name
    occasion: Occasion
    title: str
    content: BlobAddress
    rule: PromotionRule
    run: Name | None
    source: PieceSource


class RecipeImported(Event):
    """A named piece of plan that can be used again; a person may edit it as a file and bring it in anew."""

    type: Literal["RecipeImported"] = "RecipeImported"
    recipe: Name
    occasion: Occasion
    title: str
    content: BlobAddress
    rule: PromotionRule
    run: Name | None
    source: PieceSource


class MemoryQuarantined(Event):
    """A piece stays out of every later artifact until new evidence clears it."""

    type: Literal["MemoryQuarantined"] = "MemoryQuarantined"
    piece: Name
    kind: PieceKind
    restored: Count
    reason: str


class PieceTried(Event):
    """A run that differed from its siblings by one piece of memory ended, and so did they.

    It carried the piece and they did not, or it was `withheld` from this run alone. `won` says whether this run passed
    its oracle, `control_successes` how many of the `control_runs` did. Trials of a rewrite that carried it are
    RewriteWon and RewriteLost.
    """

    type: Literal["PieceTried"] = "PieceTried"
    piece: Name
    kind: PieceKind
    run: Name
    control_runs: tuple[Name, ...]
    control_successes: Count
    won: bool
    withheld: bool
