"""What a table keeps of a state is the state, in few bytes."""

from __future__ import annotations

import pytest

from eventlog.store import Position
from projections import ALL
from projections.engine.projection import AnyFold, Change, replay
from projections.engine.stored_states import encode_state
from tests.golden.test_golden_samples import golden_log

FOLDS = pytest.mark.parametrize("fold", ALL, ids=lambda fold: str(fold.name))


@FOLDS
def test_a_state_is_read_as_it_was_kept(fold: AnyFold) -> None:
    for change in [*replay(fold, golden_log()), Change("k", Position(1), fold.initial)]:
        if change.state is None:
            continue
        text = encode_state(change.state).decode()
        found = fold.parse(text)
        assert (found, type(found)) == (change.state, type(change.state))
        line = f'["a key",7,{text}]\n["a key",8,null]'
        assert fold.parse_changes(line) == [
            Change("a key", Position(7), change.state),
            Change("a key", Position(8), None),
        ]


@FOLDS
def test_a_state_is_kept_without_names_of_fields_and_without_what_it_has_by_default(fold: AnyFold) -> None:
    assert encode_state(type(fold.initial)()) == b"[]"
    for change in replay(fold, golden_log()):
        if change.state is not None:
            assert encode_state(change.state).startswith(b"[")
