"""Memory as of a log position, the artifact that pairs it with weights, and the events of its pieces."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ..chain import EXACT
from .event import BlobAddress, Count, Digest, Event, FrozenModel, Micro, Name, ScoreMicro, Whole
from .plans import StepType
from .rewrites import EnvSeed, PromotionRule

PieceKind = Literal["rewrite", "hint", "exemplar", "snippet", "recipe", "skill", "instruction"]

ProposedKind = Literal["skill", "instruction"]
"""The kinds that PieceProposed records; each other kind has an event of its own."""


class MemoryScope(FrozenModel):
    """A memory as a difference from another one, whose content is the blob `base`.

    `entered` are taken from the folds at the memory's position, in place of what the base has of them; `left` are gone.
    """

    base: BlobAddress
    entered: tuple[Name, ...]
    left: tuple[Name, ...]


class Memory(FrozenModel):
    """An agent's memory: the pieces of the named folds at a log position, except those in `without`.

    With a `scope`, it is instead another memory with these differences; without one the field is omitted when stored.

    `digest` is the SHA-256 of the canonical content, which is stored as a blob. `embeddings` is the digest of the model
    used, besides words, to match pieces of this memory and candidates tried with it (None: by words only; then the
    field is omitted when stored, so older memories keep their digest).
    """

    upto: Count
    folds: dict[Name, Count]
    without: tuple[Name, ...]
    digest: BlobAddress
    embeddings: Annotated[Digest | None, Field(exclude_if=lambda embeddings: embeddings is None)] = None
    scope: Annotated[MemoryScope | None, Field(exclude_if=lambda scope: scope is None)] = None


def artifact_name(weights: str, upto: int) -> str:
    """Name of an artifact: `base@0`, or `ck-3f9a1c22@18342` for a checkpoint digest."""
    return f"{weights if weights == 'base' else f'ck-{weights[:8]}'}@{upto}"


class Artifact(FrozenModel):
    """Weights and memory. Champions and challengers are artifacts, and every run is pinned to one."""

    weights: Name
    memory: Memory

    def __str__(self) -> str:
        """See artifact_name."""
        return artifact_name(self.weights, self.memory.upto)


class Occasion(FrozenModel):
    """The steps to which a piece may apply: of this type and intent, on pages whose address matches `page`.

    In `page`, numbers and other names that depend on the seed are `*`. An empty intent or page matches any. A lesson in
    words names the `cluster` of tasks in which it is told (None: any; then the field is omitted when stored).
    """

    environment: Name
    type: StepType
    intent: str
    page: str
    cluster: Annotated[Name | None, Field(exclude_if=lambda cluster: cluster is None)] = None


PieceSource = Literal["recovery", "good_run", "authored", "imported"]
"""recovery: found by recovery in a failed run. good_run: taken from a run that passed. authored: supplied with a site.
imported: from a file that a person may have edited."""


class HintRecorded(Event):
    """A hint was recorded: where to find something that a step needs. `content` is a blob: its text and its change.

    `rule` decides its promotion. A further event of the same hint makes it a candidate again, as with RewriteProposed.
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
    """An exemplar was captured: the actions of a good run at a step, with the reward of that run.

    `nudge` makes a similar step act as that one did; `inject` inserts its steps before a similar step.
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
    """A snippet was learned from good runs or authored: a few steps that replace a step of the same topic."""

    type: Literal["SnippetLearned"] = "SnippetLearned"
    snippet: Name
    occasion: Occasion
    title: str
    content: BlobAddress
    rule: PromotionRule
    run: Name | None
    source: PieceSource


class RecipeImported(Event):
    """A recipe was imported: a named, reusable piece of plan. A person may edit it as a file and import it again."""

    type: Literal["RecipeImported"] = "RecipeImported"
    recipe: Name
    occasion: Occasion
    title: str
    content: BlobAddress
    rule: PromotionRule
    run: Name | None
    source: PieceSource


class PieceProposed(Event):
    """A piece of a kind without an event of its own was proposed. It is in words: its content has a text, no change.

    A skill is Markdown that the manager of a delegation loop may give to workers; `title` is its name in the
    catalogue. An instruction is a text that an agent gets before its task; `title` is the id of the one in whose place
    it was tried, or empty.
    """

    type: Literal["PieceProposed"] = "PieceProposed"
    piece: Name
    kind: ProposedKind
    occasion: Occasion
    title: str
    content: BlobAddress
    rule: PromotionRule
    run: Name | None
    source: PieceSource


class MemoryQuarantined(Event):
    """A piece was quarantined: it is excluded from every later artifact until new evidence clears it.

    In version 1 it was no skill and no instruction.
    """

    schema_version: ClassVar[int] = 2
    type: Literal["MemoryQuarantined"] = "MemoryQuarantined"
    piece: Name
    kind: PieceKind
    restored: Count
    reason: str


class PieceTried(Event):
    """A trial ended: a run that differed from its siblings by one piece of memory, and the siblings as controls.

    The run carried the piece and its siblings did not, or the piece was `withheld` from this run only. `won` is True if
    the run passed its oracle, `control_successes` is the number of `control_runs` that did. Trials that carried a
    rewrite are recorded as RewriteWon and RewriteLost. In version 1 it was no skill and no instruction.
    """

    schema_version: ClassVar[int] = 2
    type: Literal["PieceTried"] = "PieceTried"
    piece: Name
    kind: PieceKind
    run: Name
    control_runs: tuple[Name, ...]
    control_successes: Count
    won: bool
    withheld: bool
    env_seed: EnvSeed = None


Substrate = Literal["hints", "exemplars", "rewrites", "curriculum", "recipes", "skills", "instructions"]
"""A way to learn. Each has one kind of piece; that of the curriculum is the snippet."""

ChoiceReason = Literal["unknown", "explore", "exploit"]
"""unknown: it has no credited run in the cluster. exploit: its value is highest. explore: drawn though it is not."""


class Decay(FrozenModel):
    """Decay of exploration: after k credited runs, epsilon is `start * halved_after / (halved_after + k)`."""

    start: ScoreMicro = 300_000
    halved_after: Annotated[int, Field(ge=1, le=EXACT)] = 20


class Forgetting(FrozenModel):
    """Discounted Thompson sampling: after each credited run all earlier ones weigh `keep` as much (millionths).

    Each substrate's value is drawn around its discounted mean, with a standard deviation of `spread` (micro-units of
    reward) over the square root of its weight plus one.
    """

    keep: ScoreMicro = 980_000
    spread: Count = 300_000


class SubstrateChosen(Event):
    """A substrate was chosen for one sibling of a group, which learns only by it, and why.

    `value` is its value in the cluster at that time (None: unknown), `budget_left` in micro-dollars (None: unlimited).
    The random stream is `seed/environment/cluster/group`.

    With `forgetting` the substrate was chosen by discounted Thompson sampling, and `epsilon` and `decay` are None. In
    version 1 it was chosen by epsilon-greedy over the means of all credited runs, with the probability `epsilon` of
    exploring, and `forgetting` is None. Up to version 2 it was neither skills nor instructions.
    """

    schema_version: ClassVar[int] = 3
    type: Literal["SubstrateChosen"] = "SubstrateChosen"
    environment: Name
    cluster: Name
    substrate: Substrate
    sweep: Name
    group: Name
    reason: ChoiceReason
    value: Micro | None
    epsilon: ScoreMicro | None
    budget_left: Count | None
    seed: Whole
    decay: Decay | None
    forgetting: Forgetting | None


class SubstrateCredited(Event):
    """The result of a choice: the run with the substrate, compared with frozen siblings of the same instance.

    `gain` is the run's reward minus the mean of its `control_runs`; None if one of these rewards is unknown. `cost` is
    the run's, in micro-dollars. If no piece of the substrate `applied`, the run is no evidence about it. In version 1
    it was neither skills nor instructions.
    """

    schema_version: ClassVar[int] = 2
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
