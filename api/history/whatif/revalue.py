"""Recompute rewards under another definition, from their terms, their usage or the recorded end state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agents.rewards import SHAPING_VERSION, cost_of, penalty_of, shape_reward
from agents.rollouts.errors import CannotGrade
from agents.rollouts.regrade import VERIFIERS, Regraded, Verifier, instance_to_grade, regrade_run, verifier
from eventlog.blobs import BlobStore
from eventlog.errors import BlobErased, BlobMissing
from eventlog.events import PriceBookSet, RewardGraded, RunFinished, RunStarted
from eventlog.store import EventStore, Position
from projections.costs import PriceBook

from ..regrade import conduct_in
from .definitions import WHOLE, Prices, RewardDefinition
from .report import RewardWouldBe, Ungraded, Worth

_READ = ("RunStarted", "RunFinished", "RewardGraded", "PriceBookSet")


@dataclass(frozen=True, slots=True)
class Revalued:
    """Changed rewards by position, changed outcomes by run, and runs whose reward cannot be computed."""

    rewards: Mapping[Position, RewardGraded]
    passed: Mapping[str, bool]
    moved: tuple[RewardWouldBe, ...]
    ungraded: tuple[Ungraded, ...]


@dataclass(frozen=True, slots=True)
class _Maker:
    """Recomputes one reward."""

    definition: RewardDefinition
    store: EventStore
    blobs: BlobStore
    grade: Verifier | None

    def cost(self, reward: RewardGraded, finished: RunFinished | None, book: Prices | None) -> int | None:
        """Cost under the definition's prices; the recorded cost if the prices are the same."""
        prices = self.definition.prices
        if prices is None or prices == book:
            return reward.cost
        if finished is None:
            raise CannotGrade(run=reward.run, actual="it has no recorded usage, so its cost cannot be computed")
        return cost_of(finished.usage, PriceBook(version=reward.prices, **prices.model_dump()))

    def regrade(self, reward: RewardGraded, started: RunStarted | None, finished: RunFinished | None) -> Regraded:
        """Grade by the definition's verifier; the recorded grade if the verifier is the same. Raises CannotGrade.

        An environment that is not built in is graded by what its oracle said, so only such a reward is graded again.
        """
        if self.grade is None or self.definition.version == reward.version:
            return Regraded(reward.score, reward.passed, reward.reasons)
        if started is None or finished is None:
            raise CannotGrade(run=reward.run, actual="its start and its end are not in the log")
        try:
            end_state = self.blobs.get(finished.end_state).body
        except BlobErased as error:
            raise CannotGrade(run=reward.run, actual="its end state was erased") from error
        except BlobMissing as error:
            raise CannotGrade(run=reward.run, actual="its end state is missing") from error
        return regrade_run(started, instance_to_grade(started, finished, end_state, reward), self.grade)

    def remake_reward(
        self, reward: RewardGraded, started: RunStarted | None, finished: RunFinished | None, book: Prices | None
    ) -> RewardGraded:
        """Reward under the definition; equal to the recorded one if the definition matches it."""
        wanted = self.definition
        said, cost = self.regrade(reward, started, finished), self.cost(reward, finished, book)
        rate = reward.terms.lambda_per_dollar if wanted.lambda_per_dollar is None else wanted.lambda_per_dollar
        passed = said.passed if wanted.pass_score is None else said.score >= wanted.pass_score
        is_weighed = (wanted.score_weight, wanted.penalty_weight) != (WHOLE, WHOLE)
        as_it_was = (reward.score, reward.cost, reward.terms.lambda_per_dollar)
        value, penalty = reward.value, reward.terms.penalty
        if is_weighed or (said.score, cost, rate) != as_it_was:
            penalty = penalty_of(cost, rate)
            weighed = said.score * wanted.score_weight - (penalty or 0) * wanted.penalty_weight
            value = None if penalty is None else weighed // WHOLE
        terms = {"score": said.score, "lambda_per_dollar": rate, "penalty": penalty}
        other = reward.model_copy(
            update={
                "version": wanted.version or reward.version,
                "score": said.score,
                "passed": passed,
                "reasons": said.reasons,
                "terms": reward.terms.model_copy(update=terms),
                "cost": cost,
                "value": value,
            }
        )
        return self.reshape_reward(reward, other, started, finished)

    def reshape_reward(
        self, reward: RewardGraded, other: RewardGraded, started: RunStarted | None, finished: RunFinished | None
    ) -> RewardGraded:
        """The other reward with its shaped return recomputed, if the recorded reward has one."""
        worth = [(each.score, each.passed, each.terms.penalty) for each in (reward, other)]
        if reward.shaping is None or worth[0] == worth[1]:
            return other
        if reward.shaping != SHAPING_VERSION or started is None or finished is None:
            return shape_reward(other, None)
        return shape_reward(other, conduct_in(self.store, self.blobs, started, finished))


def revalue(
    store: EventStore,
    blobs: BlobStore,
    definition: RewardDefinition,
    upto: Position,
    known: Mapping[str, Verifier] = VERIFIERS,
) -> Revalued:
    """Recompute every reward up to a position under another definition. Raises UnknownVerifier.

    A run that cannot be graded or priced again keeps its recorded reward and is listed.
    """
    grade = None if definition.version is None else verifier(definition.version, known)
    maker = _Maker(definition, store, blobs, grade)
    started: dict[str, RunStarted] = {}
    finished: dict[str, RunFinished] = {}
    books: dict[int, Prices] = {}
    rewards: dict[Position, tuple[RewardGraded, RewardGraded]] = {}
    outcomes: dict[str, tuple[bool, bool]] = {}
    ungraded: list[Ungraded] = []
    for item in store.read(types=_READ, upto=upto):
        match item.event:
            case RunStarted() as event:
                started[event.run] = event
            case RunFinished() as event:
                finished[event.run] = event
            case PriceBookSet() as event:
                books[event.version] = Prices(**event.model_dump(exclude={"type", "version"}))
            case RewardGraded() as event:
                book = books.get(event.prices)
                try:
                    other = maker.remake_reward(event, started.get(event.run), finished.get(event.run), book)
                except CannotGrade as error:
                    ungraded.append(Ungraded(event.run, str(error.facts["actual"])))
                    other = event
                outcomes[event.run] = (event.passed, other.passed)
                rewards[item.position] = (event, other)
    passed = {run: would for run, (actual, would) in outcomes.items() if actual != would}
    others = {position: other for position, (reward, other) in rewards.items() if other != reward}
    moved = (RewardWouldBe(r.run, int(at), _worth(r), _worth(o)) for at, (r, o) in rewards.items())
    return Revalued(others, passed, tuple(each for each in moved if each.actual != each.would), tuple(ungraded))


def _worth(reward: RewardGraded) -> Worth:
    return Worth(reward.score, reward.passed, reward.cost, reward.value)
