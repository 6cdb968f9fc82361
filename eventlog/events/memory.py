"""Memory as a position, the artifact that pairs it with weights, and what takes a piece out of memory."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .event import EXACT, BlobAddress, Count, Digest, Event, FrozenModel, Micro, Name, ScoreMicro, Whole
from .plans import StepType
from .rewrites import PromotionRule

PieceKind = Literal["rewrite", "hint", "exemplar", "snippet", "recipe"]


class Memory(FrozenModel):
    """What an agent remembers: the folds named, at a log position, less the pieces in `without`.

    `digest` is the SHA-256 of the canonical content, which is kept as a blob. `embeddings` is the digest of the model
    that it is matched by beside its words, and so is whatever is tried with it (None: by words alone). A memory without
    one is written as it was before there were any.
    """

    upto: Count
    folds: dict[Name, Count]
    without: tuple[Name, ...]
    digest: BlobAddress
    embeddings: Annotated[Digest | None, Field(exclude_if=lambda embeddings: embeddings is None)] = None


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


Substrate = Literal["hints", "exemplars", "rewrites", "curriculum", "recipes"]
"""A way to learn. Each has one kind of piece: hint, exemplar, rewrite, snippet (curriculum) and recipe."""

ChoiceReason = Literal["unknown", "explore", "exploit"]
"""unknown: it was never credited there. explore: drawn, whatever it is worth. exploit: it is worth the most."""


class Decay(FrozenModel):
    """How exploring wanes: after k credited runs epsilon is `start * halved_after / (halved_after + k)`."""

    start: ScoreMicro = 300_000
    halved_after: Annotated[int, Field(ge=1, le=EXACT)] = 20


class SubstrateChosen(Event):
    """In a group of a sweep one sibling learns by this substrate alone, and this is why.

    `value` is what it was worth in this cluster then (None: unknown), `epsilon` the chance of exploring, `budget_left`
    micro-dollars (None: no bound). The draw is that of the stream `seed/environment/cluster/group`.
    """

    type: Literal["SubstrateChosen"] = "SubstrateChosen"
    environment: Name
    cluster: Name
    substrate: Substrate
    sweep: Name
    group: Name
    reason: ChoiceReason
    value: Micro | None
    epsilon: ScoreMicro
    budget_left: Count | None
    seed: Whole
    decay: Decay


class SubstrateCredited(Event):
    """What a choice came to: the run that carried the substrate, beside frozen siblings of the same instance.

    `gain` is the reward of the run less the mean of its `control_runs`; None where one of them has none. `cost` is the
    run's, in micro-dollars. Where no piece of the substrate `applied`, the run says nothing about it.
    """

    type: Literal["SubstrateCredited"] = "SubstrateCredited"
    environment: Name
    cluster: Name
    substrate: Substrate
    group: Name
    run: Name
    control_runs: tuple[Name, ...]
    applied: bool
    gain: Micro | None
    cost: Count | None
