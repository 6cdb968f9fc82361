from __future__ import annotations

from typing import Any

from eventlog.events import AnyEvent, ChampionPointed, EvaluationOpened, VerdictReached
from projections.champions import CHAMPION, CHAMPIONS, ChampionState
from projections.engine.projection import replay
from projections.verdicts import VERDICTS
from tests.golden.test_golden_samples import sample
from tests.unit.test_gate_samples import artifact

from .test_folds_samples import only, states, told


def pointed(upto: int, by: str = "operator", **changes: Any) -> Any:
    return sample("ChampionPointed", artifact=artifact(upto).model_dump(mode="json"), by=by, **changes)


def after(*events: AnyEvent) -> ChampionState:
    return only(CHAMPIONS, *events)


def test_the_champion_is_the_last_one_pointed_at_and_says_who_moved_it_and_why() -> None:
    event = pointed(7, reason="it won", evaluation="e1")
    (_, change) = replay(CHAMPIONS, told(pointed(0, "genesis"), event, actor="ada"))
    state = change.state
    assert state is not None
    assert (change.key, change.since) == (CHAMPION, 2)
    assert (state.name, state.actor, state.reason, state.evaluation) == ("base@7", "ada", "it won", "e1")
    assert (state.since, state.stack) == (2, (1, 2))
    assert isinstance(event, ChampionPointed)
    assert state.pointed_artifact() == event.artifact


def test_a_checkpoint_champion_is_named_by_its_digest() -> None:
    weights = artifact(18_342, "3f9a1c22" + "0" * 56)
    event = sample("ChampionPointed", artifact=weights.model_dump(mode="json"))
    assert after(event).name == str(weights) == "ck-3f9a1c22@18342"


def test_each_rollback_takes_one_more_pointing_off_the_stack() -> None:
    story = [pointed(0, "genesis"), pointed(10, "gate"), pointed(20, "gate")]
    assert after(*story).stack == (1, 2, 3)
    assert after(*story, pointed(10, "rollback")).stack == (1, 2)
    assert after(*story, pointed(10, "rollback"), pointed(0, "rollback")).stack == (1,)


def test_a_pointing_after_a_rollback_goes_on_top_of_what_was_restored() -> None:
    story = [pointed(0, "genesis"), pointed(10, "gate"), pointed(0, "rollback"), pointed(30, "gate")]
    assert after(*story).stack == (1, 4)
    assert after(*story, pointed(0, "rollback")).stack == (1,)


def test_history_keeps_every_champion() -> None:
    changes = replay(CHAMPIONS, told(pointed(0), pointed(5), pointed(9)))
    assert [change.state and change.state.name for change in changes] == ["base@0", "base@5", "base@9"]


def test_an_evaluation_is_undecided_until_its_verdict_and_then_keeps_every_number() -> None:
    opened = sample("EvaluationOpened", evaluation="e1")
    reached = sample("VerdictReached", evaluation="e1")
    assert isinstance(opened, EvaluationOpened)
    assert isinstance(reached, VerdictReached)
    waiting, decided = only(VERDICTS, opened), only(VERDICTS, opened, reached)
    assert (waiting.decision, waiting.verdict_reached()) == (None, None)
    assert (waiting.artifacts(), waiting.opening_rules()) == ((opened.champion, opened.challenger), opened.rules)
    assert (decided.decision, decided.verdict_reached()) == (reached.verdict.decision, reached.verdict)
    assert (decided.opened_since, decided.benchmark) == (1, opened.benchmark)


def test_evaluations_do_not_share_a_verdict() -> None:
    found = states(
        VERDICTS,
        sample("EvaluationOpened", evaluation="e1"),
        sample("EvaluationOpened", evaluation="e2"),
        sample("VerdictReached", evaluation="e2"),
    )
    assert (found["e1"].decision is None, found["e2"].decision is None) == (True, False)
