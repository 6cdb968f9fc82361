"""A what-if from a definition: the map, the same folds behind it, and the two histories side by side."""

from __future__ import annotations

from collections.abc import Mapping

from agents.learning.embeddings import Embedded, by_words
from agents.rollouts.regrade import VERIFIERS, Verifier
from eventlog.blobs import Inventory
from eventlog.events import PromotionRule
from eventlog.store import EventStore, Position
from projections.counterfactual import (
    OF_REWARDS,
    OF_RULES,
    EventMap,
    Mapped,
    ViewsAt,
    under_rewards,
    under_rule,
    views_through,
)

from .datasets import datasets
from .definitions import RewardDefinition
from .report import WhatIf
from .revalue import Revalued, revalue
from .rewrites import rewrites
from .unplayed import evaluations_asked, runs_not_played
from .verdicts import champion, judge_verdicts_again, verdicts

_AS_IT_WAS = Revalued({}, {}, (), ())


def if_rule(
    store: EventStore,
    blobs: Inventory,
    views_at: ViewsAt,
    rule: PromotionRule,
    upto: Position,
    embedded: Embedded = by_words,
) -> WhatIf:
    """History up to a position with this rule on every proposal. Raises what views, judging and `embedded` raise."""
    return _compose(store, blobs, views_at, upto, under_rule(rule), OF_RULES, _AS_IT_WAS, embedded, rule=rule)


def if_reward(
    store: EventStore,
    blobs: Inventory,
    views_at: ViewsAt,
    reward: RewardDefinition,
    upto: Position,
    known: Mapping[str, Verifier] = VERIFIERS,
    embedded: Embedded = by_words,
) -> WhatIf:
    """History up to a position with every reward made by this definition.

    Raises UnknownVerifier, and what `embedded` raises.
    """
    revalued = revalue(store, blobs, reward, upto, known)
    mapping = under_rewards(revalued.rewards, revalued.passed)
    return _compose(store, blobs, views_at, upto, mapping, OF_REWARDS, revalued, embedded, reward=reward)


def _compose(
    store: EventStore,
    blobs: Inventory,
    views_at: ViewsAt,
    upto: Position,
    mapping: EventMap,
    touched: frozenset[str],
    revalued: Revalued,
    embedded: Embedded,
    *,
    rule: PromotionRule | None = None,
    reward: RewardDefinition | None = None,
) -> WhatIf:
    other_at = views_through(store, views_at, mapping, touched)
    truth, other = judge_verdicts_again(store, views_at, upto), judge_verdicts_again(store, other_at, upto)
    not_played = runs_not_played(store, blobs, views_at, other_at, upto, embedded)
    return WhatIf(
        upto=int(upto),
        rule=None if rule is None else rule.model_dump(mode="json"),
        reward=None if reward is None else reward.model_dump(mode="json"),
        rewards=revalued.moved,
        ungraded=revalued.ungraded,
        rewrites=rewrites(views_at(upto), other_at(upto), Mapped(store, mapping)),
        unplayed=not_played,
        asked=evaluations_asked(views_at, other_at, upto),
        datasets=datasets(store, blobs, views_at, other_at, upto),
        verdicts=verdicts(truth, other),
        champion=champion(truth, other),
        untold=tuple(name for name in truth.verdicts if name in {run.of for run in not_played}),
    )
