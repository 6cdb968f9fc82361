from __future__ import annotations

import pytest
from msgspec.structs import replace

from agents.learning.trial_results import Outcomes, credits_of
from eventlog.events import Applied, PairedRule, PieceTried, PromotionRule, RewriteLost, RewriteWon, Spec
from eventlog.store import Append, Committed, Repeated
from projections.rewards import RewardState
from projections.rewrites import REWRITES
from projections.runs import RUNS, RunState
from tests.unit.test_agent_samples import a_store, add, propose, spec, started, views

SPECS = tuple(spec(f"r{number}", candidate=None if number % 2 else "rw-a") for number in range(8))


def runs(specs: tuple[Spec, ...] = SPECS) -> dict[str, RunState]:
    """Runs that carried what their specs name."""
    return {
        each.spec_id: RunState(run=each.spec_id, applied=(each.candidate,) if each.candidate else ()) for each in specs
    }


def rewards(*passed: bool | None) -> dict[str, RewardState]:
    graded = zip(SPECS, passed, strict=False)
    return {each.spec_id: RewardState(run=each.spec_id, passed=won) for each, won in graded if won is not None}


def credited(
    graded: dict[str, RewardState],
    carried: dict[str, RunState] | None = None,
    specs: tuple[Spec, ...] = SPECS,
    contaminated: frozenset[str] = frozenset(),
    rule: PromotionRule | None = None,
) -> tuple[Append, ...]:
    """What is appended for these outcomes, where the rewrites were proposed with this rule (default: the seeds')."""
    store = a_store()
    for name in ("rw-a", "rw-b"):
        propose(store, name, rule=rule)
    known = views(store).find(REWRITES)
    found = Outcomes(runs(specs) if carried is None else carried, graded, contaminated)
    return credits_of(specs, found, known, "controller")


def outcomes(graded: dict[str, RewardState], carried: dict[str, RunState] | None = None) -> list[tuple[str, bool]]:
    appends = credited(graded, carried)
    events = [append.events[0] for append in appends]
    assert all(isinstance(event, RewriteWon | RewriteLost) and event.control_runs == () for event in events)
    return [(event.run, event.type == "RewriteWon") for event in events if isinstance(event, RewriteWon | RewriteLost)]


def test_treated_runs_are_credited_in_the_order_of_the_sweep_whatever_the_order_of_rewards() -> None:
    graded = rewards(True, False, False, True, True, True)
    expected = [("s1__r0", True), ("s1__r2", False), ("s1__r4", True)]
    assert outcomes(graded) == expected
    assert outcomes(dict(reversed(graded.items()))) == expected


def test_a_missing_run_is_no_trial() -> None:
    assert outcomes(rewards(True, True, None, True, False)) == [("s1__r0", True), ("s1__r4", False)]


def test_a_run_whose_plan_had_no_place_for_the_candidate_is_no_trial() -> None:
    carried = runs() | {"s1__r0": RunState(run="s1__r0", applied=()), "s1__r2": RunState(applied=("rw-b",))}
    assert outcomes(rewards(True, None, True, None, True), carried) == [("s1__r4", True)]


def test_untreated_runs_earn_nothing() -> None:
    untreated = tuple(each.model_copy(update={"candidate": None}) for each in SPECS)
    assert credited(rewards(*[True] * 8), specs=untreated) == ()


def test_the_log_says_what_a_run_carried() -> None:
    store = a_store()
    treated, other = SPECS[0], SPECS[2]
    applied = (Applied(piece="rw-a", kind="rewrite", step=0),)
    add(store, f"run/{treated.spec_id}", started(treated).model_copy(update={"applied": applied}))
    add(store, f"run/{other.spec_id}", started(other))
    found = views(store).find(RUNS)
    assert outcomes(rewards(True, None, True), found) == [("s1__r0", True)]


def test_crediting_again_changes_nothing_and_a_sweep_that_went_on_adds_the_rest() -> None:
    store = a_store()
    propose(store, "rw-a")
    part = credited(rewards(True, None, True))
    assert all(isinstance(outcome, Committed) for outcome in store.append(part))
    head = store.head()
    assert all(isinstance(outcome, Repeated) for outcome in store.append(part))
    assert store.head() == head
    store.append(credited(rewards(True, None, True, None, False)))
    state = views(store).get(REWRITES, "rw-a")
    assert state is not None
    assert (state.wins, state.losses, state.consecutive_losses) == (2, 1, 1)


def test_a_run_graded_otherwise_later_is_not_credited_twice() -> None:
    store = a_store()
    propose(store, "rw-a")
    store.append(credited(rewards(True)))
    store.append(credited(rewards(False)))
    state = views(store).get(REWRITES, "rw-a")
    assert state is not None
    assert (state.wins, state.losses) == (1, 0)


def test_a_contaminated_run_is_no_trial() -> None:
    graded = rewards(True, True, False, True, True)
    appends = credited(graded, contaminated=frozenset({"s1__r2", "s1__r1"}))
    assert [append.key for append in appends] == ["credit:s1__r0", "credit:s1__r4"]


def group(*, candidate: str | None = None, withheld: str | None = None, siblings: int = 5) -> tuple[Spec, ...]:
    """One group; its last sibling tries something."""
    plain = [
        spec(f"g{index}").model_copy(update={"sibling_index": index, "group_id": "s1__g"}) for index in range(siblings)
    ]
    return (*plain[:-1], plain[-1].model_copy(update={"candidate": candidate, "withheld": withheld}))


TREATED = group(candidate="rw-a")
WITHHELD = group(withheld="rw-a")
CARRIED = {each.spec_id: RunState(run=each.spec_id, applied=("rw-a",)) for each in WITHHELD[:-1]} | {
    WITHHELD[-1].spec_id: RunState(run=WITHHELD[-1].spec_id)
}


def paired(
    specs: tuple[Spec, ...],
    passed: str,
    carried: dict[str, RunState] | None = None,
    contaminated: frozenset[str] = frozenset(),
) -> list[object]:
    """The trials of a group under the paired rule; of each sibling P it passed, F it failed, - it is missing."""
    graded = {
        each.spec_id: RewardState(run=each.spec_id, passed=letter == "P")
        for each, letter in zip(specs, passed, strict=True)
        if letter != "-"
    }
    appends = credited(graded, carried, specs, contaminated, PairedRule())
    assert all(append.key == f"credit:{specs[-1].spec_id}" and append.stream == "rewrite/rw-a" for append in appends)
    return [event for append in appends for event in append.events]


def test_the_controls_are_the_three_untreated_siblings_of_lowest_index() -> None:
    (won,) = paired(TREATED, "PFPFP")
    assert won == RewriteWon(
        rewrite="rw-a", run="s1__g4", control_runs=("s1__g0", "s1__g1", "s1__g2"), control_successes=2, env_seed=0
    )
    (lost,) = paired(TREATED, "FFFPF")
    assert isinstance(lost, RewriteLost)
    assert (lost.control_runs, lost.control_successes) == (("s1__g0", "s1__g1", "s1__g2"), 0)


def test_a_withheld_run_is_compared_with_siblings_that_carried_the_piece() -> None:
    (trial,) = paired(WITHHELD, "PPFFF", CARRIED)
    assert trial == PieceTried(
        piece="rw-a",
        kind="rewrite",
        run="s1__g4",
        control_runs=("s1__g0", "s1__g1", "s1__g2"),
        control_successes=2,
        won=False,
        withheld=True,
        env_seed=0,
    )


@pytest.mark.parametrize("passed", ["-PPPP", "PP-PP", "PPPP-"])
def test_a_trial_with_a_missing_run_is_none_but_a_sibling_beyond_the_controls_may_be_missing(passed: str) -> None:
    assert paired(TREATED, passed) == []
    assert paired(WITHHELD, passed, CARRIED) == []
    assert len(paired(TREATED, "PPP-P")) == 1


@pytest.mark.parametrize("run", ["s1__g0", "s1__g2", "s1__g4"])
def test_a_trial_with_a_contaminated_run_is_none(run: str) -> None:
    assert paired(TREATED, "PPPPP", contaminated=frozenset({run})) == []
    assert len(paired(TREATED, "PPPPP", contaminated=frozenset({"s1__g3"}))) == 1


@pytest.mark.parametrize("run", ["s1__g0", "s1__g2", "s1__g4"])
def test_a_trial_with_an_evaluations_run_is_none(run: str) -> None:
    applied = {each.spec_id: RunState(run=each.spec_id) for each in TREATED} | {
        "s1__g4": RunState(run="s1__g4", applied=("rw-a",))
    }
    assert len(paired(TREATED, "PPPPP", applied)) == 1
    assert paired(TREATED, "PPPPP", applied | {run: replace(applied[run], evaluation="eval-1")}) == []
    assert paired(WITHHELD, "PPPPP", CARRIED | {run: replace(CARRIED[run], evaluation="eval-1")}) == []


def test_too_few_siblings_are_no_trial() -> None:
    assert paired(group(candidate="rw-a", siblings=3), "PPP") == []


def test_a_candidate_that_changed_nothing_or_that_a_control_carried_is_no_trial() -> None:
    untouched = {each.spec_id: RunState(run=each.spec_id) for each in TREATED}
    assert paired(TREATED, "PPPPP", untouched) == []
    everywhere = {each.spec_id: RunState(run=each.spec_id, applied=("rw-a",)) for each in TREATED}
    assert paired(TREATED, "PPPPP", everywhere) == []


def test_a_piece_that_a_control_did_not_carry_was_not_withheld() -> None:
    assert paired(WITHHELD, "PPPPP", CARRIED | {"s1__g1": RunState(run="s1__g1")}) == []
    assert paired(WITHHELD, "PPPPP", CARRIED | {"s1__g4": RunState(run="s1__g4", applied=("rw-a",))}) == []
