"""The projector's tables answer as folding the log does: every kind of read, at any position."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import pytest

from api.house import House
from eventlog.store import START, Position, Recorded
from projections import ALL
from projections.champions import CHAMPION, CHAMPIONS
from projections.costs import COSTS, SPENT
from projections.engine.compare import compare
from projections.engine.paging import page_states
from projections.engine.projection import AnyFold, Change, apply, digest_changes, latest, replay, row_of
from projections.engine.views import PostgresViews, ReplayedViews
from projections.groups import GROUPS
from projections.rewrites import REWRITES
from projections.runs import RUNS
from tests.golden.test_golden_samples import golden_log

pytestmark = pytest.mark.reads
FOLDS = pytest.mark.parametrize("fold", ALL, ids=lambda fold: str(fold.name))
END = len(golden_log())
SOME = sorted({0, 1, 2, END - 1, END, *range(0, END, END // 15)})


@pytest.fixture
def reading(house: House) -> House:
    """A house on the golden log."""
    return house


def tables(house: House, upto: int) -> PostgresViews:
    return PostgresViews(house.engine, house.store, Position(upto))


def every_change(fold: AnyFold) -> list[Change[Any]]:
    """All changes over the golden log, those too that the table of a fold keyed by stream forgets."""
    rows = (row_of(event, fold.reads.get(event.event.type, ())) for event in golden_log())
    return list(apply(fold, {}, rows))


@FOLDS
def test_a_find_at_any_position_gives_what_folding_the_log_gives(reading: House, fold: AnyFold) -> None:
    for upto in SOME:
        found = tables(reading, upto).find(fold)
        assert found == ReplayedViews(reading.store, Position(upto)).find(fold)
        assert list(found) == sorted(found, key=str.encode)


@pytest.mark.parametrize("fold", [RUNS, REWRITES, GROUPS, COSTS, CHAMPIONS], ids=lambda fold: str(fold.name))
def test_a_key_as_of_every_position_is_what_its_changes_say(reading: House, fold: AnyFold) -> None:
    changes = every_change(fold)
    key = max({change.key for change in changes}, key=lambda key: sum(change.key == key for change in changes))
    own = [change for change in changes if change.key == key]
    since = [change.since for change in own]
    for upto in range(END + 1):
        index = bisect_right(since, upto)
        assert tables(reading, upto).get(fold, key) == (own[index - 1].state if index else None)


@FOLDS
def test_a_get_and_a_find_by_its_whole_key_agree(reading: House, fold: AnyFold) -> None:
    for upto in SOME[::4]:
        whole, views = tables(reading, upto).find(fold), tables(reading, upto)
        for key in list(whole)[:5]:
            assert views.get(fold, key) == whole[key] == views.find(fold, key)[key]
        assert views.get(fold, "no such key") is None


@FOLDS
def test_a_find_by_prefix_gives_the_keys_that_begin_so_and_takes_no_letter_for_a_pattern(
    reading: House, fold: AnyFold
) -> None:
    keys = list(tables(reading, END).find(fold))
    for prefix in ["", *(key[: len(key) // 2] for key in keys[:3]), "%", "_", "\\"]:
        for upto in (END // 2, END):
            there, here = ReplayedViews(reading.store, Position(upto)), tables(reading, upto)
            assert here.find(fold, prefix) == there.find(fold, prefix)
            assert all(key.startswith(prefix) for key in here.find(fold, prefix))


@FOLDS
def test_pages_hold_what_a_find_gives_each_state_once_and_in_order(reading: House, fold: AnyFold) -> None:
    for upto in SOME[::5]:
        views, whole = tables(reading, upto), ReplayedViews(reading.store, Position(upto)).find(fold)
        for prefix in {"", *(key[: len(key) // 2] for key in list(whole)[:2]), "no such key", "\U0010ffff"}:
            expected = [pair for pair in whole.items() if pair[0].startswith(prefix)]
            for limit in (7, 1000):
                found = list(page_states(views, fold, limit, prefix))
                assert [pair for page in found for pair in page.items()] == expected
                assert all(len(page) == limit for page in found[:-1])


@FOLDS
def test_a_page_begins_after_any_key_whether_there_is_such_a_key_or_not(reading: House, fold: AnyFold) -> None:
    for upto in (END // 2, END):
        views, whole = tables(reading, upto), tables(reading, upto).find(fold)
        for after in ("", "m", *list(whole)[:2], *(f"{key}!" for key in list(whole)[:1])):
            found = views.page(fold, after, 2)
            assert found == ReplayedViews(reading.store, Position(upto)).page(fold, after, 2)
            assert list(found) == [key for key in whole if key.encode() > after.encode()][:2]
        assert views.page(fold, None, 0) == {}


@FOLDS
def test_states_are_picked_by_keys_and_found_by_several_prefixes(reading: House, fold: AnyFold) -> None:
    for upto in SOME[::4]:
        views, replayed = tables(reading, upto), ReplayedViews(reading.store, Position(upto))
        keys = [*list(replayed.find(fold))[:3], "no such key"]
        begins = [*(key[: len(key) // 2] for key in keys), *keys[:1], "\U0010ffff"]
        for asked, found, expected in (
            (keys, views.pick(fold, keys), replayed.pick(fold, keys)),
            (begins, views.find_each(fold, begins), replayed.find_each(fold, begins)),
        ):
            assert (found, list(found)) == (expected, sorted(expected, key=str.encode)), asked
        assert views.pick(fold, []) == views.find_each(fold, []) == {}


@FOLDS
def test_a_history_holds_every_change_up_to_its_position(reading: House, fold: AnyFold) -> None:
    keys = list(tables(reading, END).find(fold))[:4]
    for upto in SOME[::4]:
        for key in [*keys, "no such key"]:
            here = tables(reading, upto).history(fold, key)
            assert here == ReplayedViews(reading.store, Position(upto)).history(fold, key)


@FOLDS
def test_the_table_has_the_digest_of_the_fold_at_any_position(reading: House, fold: AnyFold) -> None:
    for upto in SOME:
        rebuilt = replay(fold, golden_log()[:upto])
        assert digest_changes(tables(reading, upto).changes(fold)) == digest_changes(rebuilt)


def test_every_projection_compares_as_identical_at_any_position(reading: House) -> None:
    for upto in SOME[::4]:
        found = list(compare(tables(reading, upto)))
        assert [row.projection for row in found if not row.is_identical or row.differs] == []
        assert len(found) == len(ALL)


def test_before_the_first_event_there_is_nothing(reading: House) -> None:
    assert all(tables(reading, START).find(fold) == {} for fold in ALL)


def test_the_champions_history_is_who_was_champion_when(reading: House) -> None:
    history = tables(reading, END).history(CHAMPIONS, CHAMPION)
    pointings = [event for event in golden_log() if event.event.type == "ChampionPointed"]
    assert [change.since for change in history] == [event.position for event in pointings]
    assert [change.state and change.state.by for change in history] == ["genesis", "gate", "rollback"]


def test_spending_as_of_a_position_is_the_sum_of_the_grades_until_then(reading: House) -> None:
    def grades(upto: int) -> list[Recorded]:
        return [event for event in golden_log()[:upto] if event.event.type == "RewardGraded"]

    for upto in SOME:
        state = tables(reading, upto).get(COSTS, SPENT)
        assert (0 if state is None else state.runs) == len(grades(upto))


@FOLDS
def test_the_latest_state_of_each_key_is_what_is_live(reading: House, fold: AnyFold) -> None:
    live = {key: change.state for key, change in latest(every_change(fold)).items()}
    assert tables(reading, END).find(fold) == live
