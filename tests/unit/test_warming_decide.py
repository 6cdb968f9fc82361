"""What a warm-up does next, read from logs that stop at every place, and which of its bases is taken."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from pydantic import ValidationError

from agents.models.local.host import base_model_name
from api.cli.run_slow import warming_of
from api.controllers.warmup_next import (
    WarmingCourse,
    WarmingNext,
    bases_of,
    decide_warming,
    measured_name,
    measured_seeds,
    newest_base,
)
from api.course import WARM_UP
from api.training.errors import BadConfig
from eventlog.events import (
    CheckpointSaved,
    DatasetFrozen,
    SftQuery,
    SweepPlanned,
    Tokens,
    TrainingStarted,
    WarmupConfig,
)
from eventlog.memory import MemoryStore
from eventlog.store import Append
from tests.golden.test_golden_samples import sample
from tests.unit.test_agent_samples import EMPTY, a_store, add, spec, template, views
from tests.unit.test_fast_decide import play

SITE = "marketplace"
SHOWN = f"{SITE}-shown-1"
TASKS = {"oracle-t1"}
ROWS = "d1" * 32
FIRST, SECOND, THIRD = "c1" * 32, "c2" * 32, "c3" * 32
COURSE = WarmingCourse(
    demonstrated=2,
    measured=2,
    turns=3,
    first=WarmupConfig(steps=5, learning_rate="0.1"),
    further=WarmupConfig(steps=2, learning_rate="0.1", seed=1),
)


def plan(store: MemoryStore, name: str, executor: str, runs: int = 2, model: str | None = None) -> SweepPlanned:
    event = SweepPlanned(
        sweep=name,
        environment=SITE,
        templates=(template(),),
        specs=tuple(spec(f"r{index}", sweep=name, seed=index) for index in range(runs)),
        artifact=EMPTY,
        rng_seed=7,
        learns=False,
        executor=executor,
        model=model,
    )
    store.append([Append(f"sweep/{name}", (event,), WARM_UP)])
    return event


def freeze(store: MemoryStore, dataset: str = ROWS, sweep: str = SHOWN) -> None:
    tokens = Tokens(tokenizer="aa" * 32, chat_template="bb" * 32)
    query = SftQuery(runs="demonstration", sweep=sweep, tokens=tokens)
    add(
        store,
        f"dataset/{dataset}",
        DatasetFrozen(dataset=dataset, query=query, upto=5, rows=2, groups=2, refused=()),
    )


def save(store: MemoryStore, base: str, dataset: str = ROWS, steps: int = 5) -> None:
    """A base that a warm-up on a dataset gave."""
    facts = {"training": f"warmup-{base[:4]}", "dataset": dataset, "parent": None}
    config = WarmupConfig(steps=steps, learning_rate="0.1")
    begun, saved = sample("TrainingStarted"), sample("CheckpointSaved")
    assert isinstance(begun, TrainingStarted)
    assert isinstance(saved, CheckpointSaved)
    add(
        store,
        f"training/{facts['training']}",
        begun.model_copy(update={**facts, "config": config}),
        saved.model_copy(update={**facts, "checkpoint": base, "algorithm": "warmup"}),
    )


def measure(store: MemoryStore, base: str, *passed: bool | None) -> None:
    play(store, plan(store, measured_name(SITE, base), "policy", len(passed)).specs, *passed)


def a_shown_log() -> MemoryStore:
    store = a_store()
    play(store, plan(store, SHOWN, "demonstration").specs, True, False)
    freeze(store)
    return store


def own(store: MemoryStore) -> list[SweepPlanned]:
    return [recorded.event for recorded in store.read() if isinstance(recorded.event, SweepPlanned)]


def following(
    store: MemoryStore, course: WarmingCourse = COURSE, rounds: Sequence[SweepPlanned] = (), task: str = "oracle-t1"
) -> WarmingNext:
    return decide_warming(views(store), own(store), rounds, course=course, site=SITE, tasks={task})


def taken(store: MemoryStore, course: WarmingCourse = COURSE, rounds: Sequence[SweepPlanned] = ()) -> str:
    step = following(store, course, rounds)
    assert step.what == "take"
    assert step.turn is not None
    return step.turn.weights.checkpoint


def test_it_goes_from_demonstrations_to_a_base_that_was_measured() -> None:
    store = a_store()
    assert (following(store).what, following(store).shown) == ("show", None)
    shown = plan(store, SHOWN, "demonstration")
    assert (following(store).what, following(store).shown) == ("show", shown)
    play(store, shown.specs, True, False)
    assert following(store).what == "freeze"
    freeze(store)
    assert (following(store).what, following(store).turn) == ("train", None)
    save(store, FIRST)
    assert following(store).what == "measure"
    planned = plan(store, measured_name(SITE, FIRST), "policy")
    step = following(store)
    assert step.turn is not None
    assert (step.what, step.turn.sweep) == ("measure", planned)
    play(store, planned.specs, True, False)
    assert taken(store) == FIRST


def test_a_base_that_passes_less_than_the_band_is_gone_on_with_until_the_turns_are_over() -> None:
    store = a_shown_log()
    for number, base in enumerate((FIRST, SECOND, THIRD)):
        step = following(store)
        assert (step.what, -1 if step.turn is None else step.turn.number) == ("train", number - 1)
        save(store, base, steps=5 if number == 0 else 2)
        measure(store, base, False, number == 1, False)
    step = following(store)
    assert step.turn is not None
    assert (step.what, step.turn.weights.checkpoint, step.turn.steps) == ("take", SECOND, 7)
    assert step.turn.success == 333_333
    assert taken(store, COURSE.model_copy(update={"turns": 9, "low": "0.33"})) == SECOND


def test_a_later_turn_that_is_further_from_the_band_is_not_taken() -> None:
    store = a_shown_log()
    save(store, FIRST)
    measure(store, FIRST, True, False, False)
    save(store, SECOND)
    measure(store, SECOND, True, True, True)
    assert taken(store) == FIRST
    assert taken(store, COURSE.model_copy(update={"high": "1"})) == SECOND


def test_a_base_that_rounds_were_played_with_stays_the_one() -> None:
    store = a_shown_log()
    save(store, FIRST)
    measure(store, FIRST, False, False)
    save(store, SECOND)
    measure(store, SECOND, True, False)
    rounds = [plan(a_store(), "s1", "policy", model=base_model_name(FIRST))]
    assert taken(store, rounds=rounds) == FIRST
    assert taken(store, COURSE.model_copy(update={"demonstrated": 99, "low": "1", "high": "1"}), rounds) == FIRST
    assert taken(store) == SECOND


def test_runs_that_the_platform_could_not_play_did_not_pass() -> None:
    store = a_shown_log()
    save(store, FIRST)
    measure(store, FIRST, True, None, None)
    assert following(store).what == "train"


def test_more_demonstrations_are_shown_where_more_are_asked_for_and_nothing_was_learned_yet() -> None:
    store, more = a_shown_log(), COURSE.model_copy(update={"demonstrated": 3})
    assert following(store, more).what == "show"
    assert following(store, more).shown is None
    save(store, FIRST)
    assert following(store, more).what == "measure"
    assert following(store, task="oracle-t2").what == "show"  # others than were shown


def test_what_was_frozen_again_is_learned_from_anew() -> None:
    store = a_shown_log()
    save(store, FIRST)
    measure(store, FIRST, False, False)
    freeze(store, "d2" * 32)
    assert (following(store).what, following(store).turn) == ("train", None)
    save(store, SECOND, "d2" * 32)
    measure(store, SECOND, True, False)
    assert taken(store) == SECOND


def test_bases_are_measured_at_the_same_seeds() -> None:
    store = a_shown_log()
    assert measured_seeds(own(store), TASKS, 2) == ()
    save(store, FIRST)
    measure(store, FIRST, False, False)
    assert measured_seeds(own(store), TASKS, 2) == (0, 1)
    assert measured_seeds(own(store), TASKS, 3) == ()
    assert measured_seeds(own(store), {"oracle-t2"}, 2) == ()


def test_the_newest_base_is_one_that_no_warm_up_of_our_own_made() -> None:
    store = a_shown_log()
    save(store, FIRST)
    assert bases_of(views(store), {SHOWN}) == (FIRST,)
    assert newest_base(views(store), but=(FIRST,)) is None
    save(store, SECOND, "d9" * 32)  # by hand
    save(store, THIRD)
    assert bases_of(views(store), {SHOWN}) == (FIRST, THIRD)
    assert newest_base(views(store), but=(FIRST, THIRD)) == SECOND


def test_each_turn_has_a_configuration_of_its_own() -> None:
    assert [COURSE.stage(number).seed for number in range(3)] == [0, 1, 2]
    assert [COURSE.stage(number).steps for number in range(3)] == [5, 2, 2]


def test_a_file_says_how_to_warm_up(tmp_path: Path) -> None:
    file = tmp_path / "warm.json"
    file.write_text('{"turns": 2, "high": "0.60", "shape": {"hidden": 64, "layers": 1}}')
    found = warming_of(file, None)
    assert (found.turns, found.high, found.shape.hidden, found.first) == (2, "0.6", 64, WarmingCourse().first)
    assert warming_of(None, "bases/x") == WarmingCourse()
    with pytest.raises(typer.BadParameter, match="--base names one"):
        warming_of(file, "bases/x")


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"turn": 2}', '{"low": 0.5}', '{"low": "0.6"}', '{"high": "2"}', '{"shape": {"hiden": 64}}'],
)
def test_a_file_that_says_no_warm_up_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "warm.json"
    file.write_text(text)
    with pytest.raises(BadConfig, match=r"the warm-up in .*warm\.json"):
        warming_of(file, None)


def test_a_band_runs_from_low_to_high() -> None:
    with pytest.raises(ValidationError, match=r"low 0\.5 to high 0\.4"):
        WarmingCourse(low="0.5", high="0.4")
