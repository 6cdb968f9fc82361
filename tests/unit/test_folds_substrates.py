from __future__ import annotations

from typing import Any

from projections.engine.projection import replay
from projections.substrates import SUBSTRATES, SubstrateStats, cluster_key, standings
from tests.golden.test_golden_samples import sample
from tests.unit.test_folds_samples import only, states, told

STATS = SubstrateStats(
    substrate="hints", chosen=2, pulls=2, gain=1_200_000, cost=20, weight=2_000_000, recent=1_200_000
)


def chosen(substrate: str = "hints", **changes: object) -> Any:
    return sample("SubstrateChosen", substrate=substrate, **{"forgetting": None, **changes})


def credited(gain: int | None, substrate: str = "hints", *, applied: bool = True, **changes: object) -> Any:
    return sample("SubstrateCredited", substrate=substrate, gain=gain, applied=applied, cost=10, **changes)


def test_a_value_is_the_mean_gain_of_the_runs_that_it_applied_in() -> None:
    state = only(SUBSTRATES, chosen(), chosen(), credited(900_000), credited(300_000))
    assert state.substrates == (STATS,)
    assert (state.substrates[0].value, state.substrates[0].mean_cost) == (600_000, 10)


def test_a_run_in_which_nothing_of_it_applied_is_no_credit() -> None:
    state = only(SUBSTRATES, chosen(), credited(1_000_000, applied=False))
    assert (state.substrates[0].pulls, state.substrates[0].idle, state.substrates[0].value) == (0, 1, None)


def test_a_reward_that_is_not_known_is_counted_and_is_not_zero() -> None:
    state = only(SUBSTRATES, chosen(), credited(None))
    assert (state.substrates[0].unknown, state.substrates[0].value) == (1, None)


def test_exploring_wanes_with_the_runs_credited_in_the_cluster_by_the_numbers_of_the_choice() -> None:
    decay = {"start": 400_000, "halved_after": 2}
    two = [credited(0), credited(0, "rewrites")]
    assert only(SUBSTRATES, chosen(decay=decay)).epsilon == 400_000
    assert only(SUBSTRATES, chosen(decay=decay), *two).epsilon == 200_000
    assert only(SUBSTRATES, chosen(decay=decay), *two, *two).epsilon == 133_333


def test_each_cluster_of_each_environment_has_values_of_its_own() -> None:
    found = states(SUBSTRATES, chosen(), chosen(cluster="policy"), credited(5, environment="helpdesk"))
    assert sorted(found) == ["helpdesk/knowledge", "marketplace/knowledge", "marketplace/policy"]
    assert standings(found, "helpdesk", "knowledge")["hints"].value == 5
    assert standings(found, "nowhere", "knowledge") == {}


def test_what_rests_on_a_withdrawn_run_is_taken_out_of_the_values() -> None:
    log = told(
        chosen(),
        credited(1_000_000, run="good", control_runs=["c1"]),
        credited(0, run="bad", control_runs=["c2"]),
        credited(0, run="other", control_runs=["bad2"]),
        sample("RunsWithdrawn", runs=["bad", "bad2"]),
    )
    (last,) = [change for change in replay(SUBSTRATES, log) if change.since == 5]
    assert last.key == cluster_key("marketplace", "knowledge")
    assert last.state is not None
    assert (last.state.substrates[0].pulls, last.state.substrates[0].value) == (1, 1_000_000)


def test_a_credited_run_makes_earlier_ones_of_the_cluster_count_less_if_choices_forget() -> None:
    forgetting = {"keep": 500_000, "spread": 1}
    state = only(SUBSTRATES, chosen(forgetting=forgetting), credited(800_000), credited(0, "rewrites"), credited(0))
    hints, rewrites = state.substrates
    assert (hints.weight, hints.recent, hints.value) == (1_250_000, 200_000, 160_000)
    assert (rewrites.weight, rewrites.value, state.keep) == (500_000, 0, 500_000)
    assert (hints.pulls, hints.gain) == (2, 800_000)


def test_what_is_forgotten_is_worth_nothing_and_not_unknown() -> None:
    forgetting = {"keep": 100_000, "spread": 1}
    told = [chosen(forgetting=forgetting), credited(900_000), *[credited(0, "rewrites")] * 4]
    assert only(SUBSTRATES, *told).substrates[0].value == 0


def test_older_choices_forget_nothing() -> None:
    found = only(SUBSTRATES, chosen(decay={"start": 1, "halved_after": 1}), *[credited(gain) for gain in (7, -2, 9)])
    assert (found.keep, found.substrates[0].value) == (1_000_000, 14 // 3)
