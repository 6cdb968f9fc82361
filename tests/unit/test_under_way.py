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
    views = cast("Views", SimpleNamespace(find=lambda _: {"eval-1": state}))
    other = rules.model_copy(update={"rng_seed": rules.rng_seed + 1})
    assert _under_way(views, frozen, ARMS, rules, None) == "eval-1"
    assert _under_way(views, frozen, ARMS, other, None) == ("eval-1" if is_resumed else None)
