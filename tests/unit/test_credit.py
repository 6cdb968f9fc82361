from __future__ import annotations

from agents.learning.credit import credits_of
from eventlog.events import Applied, RewriteLost, RewriteWon, Spec
from eventlog.store import Committed, Repeated
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


def outcomes(graded: dict[str, RewardState], carried: dict[str, RunState] | None = None) -> list[tuple[str, bool]]:
    appends = credits_of(SPECS, runs() if carried is None else carried, graded, "controller", contaminated=frozenset())
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
    assert credits_of(untreated, runs(), rewards(*[True] * 8), "controller", contaminated=frozenset()) == ()


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
    part = credits_of(SPECS, runs(), rewards(True, None, True), "controller", contaminated=frozenset())
    assert all(isinstance(outcome, Committed) for outcome in store.append(part))
    head = store.head()
    assert all(isinstance(outcome, Repeated) for outcome in store.append(part))
    assert store.head() == head
    store.append(
        credits_of(SPECS, runs(), rewards(True, None, True, None, False), "controller", contaminated=frozenset())
    )
    state = views(store).get(REWRITES, "rw-a")
    assert state is not None
    assert (state.wins, state.losses, state.consecutive_losses) == (2, 1, 1)


def test_a_run_graded_otherwise_later_is_not_credited_twice() -> None:
    store = a_store()
    propose(store, "rw-a")
    store.append(credits_of(SPECS, runs(), rewards(True), "controller", contaminated=frozenset()))
    store.append(credits_of(SPECS, runs(), rewards(False), "controller", contaminated=frozenset()))
    state = views(store).get(REWRITES, "rw-a")
    assert state is not None
    assert (state.wins, state.losses) == (1, 0)


def test_a_contaminated_run_is_no_trial() -> None:
    given = runs(), rewards(True, True, False, True, True)
    appends = credits_of(SPECS, *given, "controller", contaminated=frozenset({"s1__r2", "s1__r1"}))
    assert [append.key for append in appends] == ["credit:s1__r0", "credit:s1__r4"]
