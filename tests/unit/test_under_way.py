"""Which open evaluation a request goes on with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from api.evaluations.evaluate import _under_way
from eventlog.events import Artifact, Rules
from gate.units import order_anew
from projections.engine.views import Views
from tests.unit.test_gate_samples import benchmark

ARMS = cast("tuple[Artifact, Artifact]", ("champion", "challenger"))


@pytest.mark.parametrize(
    ("rules", "is_resumed"),
    [
        (Rules(), False),
        (Rules.seeds(), False),
        (Rules.default(), True),
        (Rules.default("e_process"), True),
    ],
    ids=lambda each: each.test if isinstance(each, Rules) else None,
)
def test_another_seed_opens_another_evaluation_unless_each_challenger_has_an_order_of_its_own(
    rules: Rules, is_resumed: bool
) -> None:
    frozen = benchmark(sealed=20)
    recorded = order_anew(rules, frozen, 3)
    state: Any = SimpleNamespace(
        benchmark_digest=frozen.digest,
        artifacts=lambda: ARMS,
        opening_rules=lambda: recorded,
        executor=None,
        decision=None,
    )
    views = cast("Views", SimpleNamespace(find=lambda _: {"eval-1": state}, get=lambda *_: None))
    other = rules.model_copy(update={"rng_seed": rules.rng_seed + 1})
    assert _under_way(views, frozen, ARMS, rules, (None, None)) == "eval-1"
    assert _under_way(views, frozen, ARMS, other, (None, None)) == ("eval-1" if is_resumed else None)


def test_an_evaluation_goes_on_with_its_own_model_alone_where_that_is_recorded() -> None:
    frozen, rules = benchmark(sealed=20), Rules.default()
    state: Any = SimpleNamespace(
        benchmark_digest=frozen.digest,
        artifacts=lambda: ARMS,
        opening_rules=lambda: rules,
        executor="policy",
        decision=None,
    )
    for recorded, models in (("openai:a", ["openai:a"]), (None, ["openai:a", "openai:b", None])):
        known = SimpleNamespace(evaluations=[SimpleNamespace(evaluation="eval-1", model=recorded)])
        views = cast("Views", SimpleNamespace(find=lambda _: {"eval-1": state}, get=lambda *_, known=known: known))
        asked = ("openai:a", "openai:b", None)
        assert [each for each in asked if _under_way(views, frozen, ARMS, rules, ("policy", each))] == models
