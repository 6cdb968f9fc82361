"""Training stages and the weights they gave, as folds see them."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from eventlog.events import AnyEvent, CheckpointSaved, GrpoConfig, TrainingStarted, stage_config_of
from projections.checkpoints import WEIGHTS, WeightsState, ancestry, checkpoints_trained_on, descendants
from projections.trainings import TRAININGS, TrainingState, training_name
from tests.golden.test_golden_samples import sample

from .test_folds_samples import states

SAVED = cast("CheckpointSaved", sample("CheckpointSaved"))


def training(*events: AnyEvent) -> TrainingState:
    """The one stage that these events are about."""
    (state,) = states(TRAININGS, *events).values()
    return state


def test_a_stage_starts_progresses_and_is_saved() -> None:
    begun = sample("TrainingStarted")
    assert isinstance(begun, TrainingStarted)
    state = training(begun, sample("TrainingProgressed", step=7))
    assert (state.status, state.attempts, state.step, state.of) == ("started", 1, 7, 80)
    assert (state.stage_config(), state.parent, state.upto) == (begun.config, begun.parent, begun.upto)
    done = training(begun, sample("TrainingProgressed"), SAVED)
    assert (done.status, done.checkpoint, done.metrics["clip_fraction"]) == ("saved", SAVED.checkpoint, "0")
    assert (done.started_since, done.since) == (1, 3)


def test_a_stage_that_is_begun_again_forgets_how_the_attempt_before_went() -> None:
    state = training(
        sample("TrainingStarted"),
        sample("TrainingProgressed"),
        sample("TrainingFailed"),
        sample("TrainingStarted", attempt=2),
    )
    assert (state.status, state.attempts, state.step, state.error) == ("started", 2, 0, None)
    assert state.started_since == 1


def test_a_stage_that_failed_says_why() -> None:
    state = training(sample("TrainingStarted"), sample("TrainingFailed", error="StalePolicy", message="too far"))
    assert (state.status, state.error, state.message, state.checkpoint) == ("failed", "StalePolicy", "too far", None)


def test_weights_keep_what_they_came_from_and_the_newest_of_each_place() -> None:
    published = [sample("CheckpointPublished", place=place, digest=digit * 64) for place, digit in ("a1", "b2", "a3")]
    (state,) = states(WEIGHTS, SAVED, *published).values()
    assert (state.checkpoint, state.base, state.parent) == (SAVED.checkpoint, SAVED.base, SAVED.parent)
    assert {file.name: file.blob for file in state.files} == {file.name: file.blob for file in SAVED.files}
    assert [(place.place, place.digest[0]) for place in state.published] == [("b", "2"), ("a", "3")]
    assert not state.is_base
    (warm,) = states(WEIGHTS, sample("CheckpointSaved", algorithm="warmup", parent=None)).values()
    assert warm.is_base


def family() -> dict[str, WeightsState]:
    """A warm-up, an adapter on it, one that goes on from that, and one on a base that the log does not know."""
    members = (
        WeightsState(checkpoint="w", algorithm="warmup", base="tiny", dataset="d1"),
        WeightsState(checkpoint="a", algorithm="sft", base="w", dataset="d2"),
        WeightsState(checkpoint="b", algorithm="dpo", base="w", parent="a", dataset="d3"),
        WeightsState(checkpoint="x", algorithm="sft", base="elsewhere", dataset="d2"),
    )
    return {member.checkpoint: member for member in members}


def test_a_lineage_goes_through_parents_and_the_bases_that_were_made_here() -> None:
    known = family()
    assert [state.checkpoint for state in ancestry(known, "b")] == ["b", "a", "w"]
    assert [state.checkpoint for state in ancestry(known, "x")] == ["x"]
    assert ancestry(known, "nobody") == ()
    assert descendants(known, {"w"}) == ("a", "b")
    assert descendants(known, {"a"}) == ("b",)
    assert checkpoints_trained_on(known.values(), {"d2"}) == {"a", "x"}


@given(st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.sampled_from("abcdefz"), st.sampled_from("abcdefz"))))
def test_who_descends_from_a_checkpoint_has_it_in_its_ancestry(links: dict[str, tuple[str, str]]) -> None:
    known = {key: WeightsState(checkpoint=key, base=base, parent=parent) for key, (base, parent) in links.items()}
    for key in known:
        below = {other for other in known if other != key and key in {s.checkpoint for s in ancestry(known, other)}}
        assert set(descendants(known, {key})) == below


@pytest.mark.parametrize("rate", ["1e-3", "0.001", "0.0010"])
def test_one_number_is_written_one_way(rate: str) -> None:
    config = stage_config_of({"algorithm": "grpo", "steps": 1, "learning_rate": rate})
    assert isinstance(config, GrpoConfig)
    assert config.learning_rate == "0.001"


@pytest.mark.parametrize(
    "wrong", [{"algorithm": "ppo"}, {"learning_rate": "fast"}, {"learning_rate": "-1"}, {"steps": 0}, {"speed": 1}]
)
def test_a_configuration_that_means_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        stage_config_of({"algorithm": "sft", "steps": 1, "learning_rate": "0.1", **wrong})


def test_one_process_is_not_written_so_that_names_stay_what_they_were() -> None:
    one = GrpoConfig(steps=2, learning_rate="0.001")
    assert "processes" not in one.model_dump(mode="json")
    assert training_name("d" * 64, "b" * 64, None, one) == "grpo-7cad35f6ec08a744"
    two = one.model_copy(update={"processes": 2})
    assert stage_config_of(two.model_dump(mode="json")) == two
    assert training_name("d" * 64, "b" * 64, None, two) != training_name("d" * 64, "b" * 64, None, one)
