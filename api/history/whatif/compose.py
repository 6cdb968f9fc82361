"""Compute a what-if report: fold the mapped events and compare the result with recorded history."""

from __future__ import annotations

from collections.abc import Mapping

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
from projections.engine.views import Views
from projections.runs import RUNS

from ...queries.untold import find_hidden, find_untold
from .definitions import RewardDefinition
from .report import RewardWouldBe, WhatIf
from .revalue import Revalued, revalue
from .rewrites import rewrites
from .verdicts import champion, judge_verdicts_again, verdicts

_UNCHANGED = Revalued({}, {}, (), ())


def if_rule(store: EventStore, views_at: ViewsAt, rule: PromotionRule, upto: Position) -> WhatIf:
    """Report history up to a position with this rule on every proposal."""
    return _compose(store, views_at, upto, under_rule(rule), OF_RULES, _UNCHANGED, rule=rule)


def if_reward(
    store: EventStore,
    blobs: Inventory,
    views_at: ViewsAt,
    reward: RewardDefinition,
    upto: Position,
    known: Mapping[str, Verifier] = VERIFIERS,
) -> WhatIf:
    """Report history up to a position with every reward recomputed under this definition. Raises UnknownVerifier."""
    revalued = revalue(store, blobs, reward, upto, known)
    mapping = under_rewards(revalued.rewards, revalued.passed)
    return _compose(store, views_at, upto, mapping, OF_REWARDS, revalued, reward=reward)


def _compose(
    store: EventStore,
    views_at: ViewsAt,
    upto: Position,
    mapping: EventMap,
    touched: frozenset[str],
    revalued: Revalued,
    *,
    rule: PromotionRule | None = None,
    reward: RewardDefinition | None = None,
) -> WhatIf:
    other_at = views_through(store, views_at, mapping, touched)
    views = views_at(upto)
    truth, other = judge_verdicts_again(store, views_at, upto), judge_verdicts_again(store, other_at, upto)
    return WhatIf(
        upto=int(upto),
        rule=None if rule is None else rule.model_dump(mode="json"),
        reward=None if reward is None else reward.model_dump(mode="json"),
        rewards=_tell_rewards(views, revalued.moved),
        ungraded=revalued.ungraded,
        rewrites=rewrites(views, other_at(upto), Mapped(store, mapping)),
        verdicts=verdicts(truth, other, find_untold(views, truth.verdicts)),
        champion=champion(truth, other),
    )


def _tell_rewards(views: Views, moved: tuple[RewardWouldBe, ...]) -> tuple[RewardWouldBe, ...]:
    """The rewards among these that may be told: of sealed runs none, while their benchmark can judge."""
    hidden = find_hidden(views, views.pick(RUNS, {each.run for each in moved}).values())
    return tuple(each for each in moved if each.run not in hidden)
