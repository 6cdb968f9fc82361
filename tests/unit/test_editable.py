from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec
import pytest

from agents.learning import memory_file
from agents.learning.memory_file import (
    BadMemoryFile,
    MemoryFileEntry,
    entry_of_rewrite,
    read_memory_file,
    write_memory_files,
)
from agents.learning.occasions import text_and_change
from agents.plans import Piece, anchor_of
from api.queries.piece_reports import TrialRow, Uplift, Way, uplift
from eventlog.events import (
    ExemplarCaptured,
    FollowLink,
    HintRecorded,
    InsertSteps,
    Occasion,
    PairedRule,
    PieceProposed,
    PreferTarget,
    RecipeImported,
    ReplaceUrl,
    SnippetLearned,
    Step,
)

OPEN = Step(type="navigate", intent="open the boats page", url="/boats")
ASK = Step(type="submit", intent="ask", label="Start a contact request")
AT = Occasion(environment="marketplace", type="click", intent="look for the engine", page="/boats/*/papers")
HINT = MemoryFileEntry(
    kind="hint", occasion=AT, text="in the report", change=PreferTarget(label="Haul-out report"), rank=600_000
)
EXEMPLAR = MemoryFileEntry(kind="exemplar", occasion=AT, text="ask first", change=InsertSteps(steps=(ASK,)))
SNIPPET = MemoryFileEntry(
    kind="snippet", occasion=AT, title="Boats", text="", change=FollowLink(page="/", label="Boats")
)
RECIPE = MemoryFileEntry(kind="recipe", occasion=AT, title="ask", text="", change=InsertSteps(steps=(ASK, ASK)))
SKILL = MemoryFileEntry(kind="skill", occasion=AT, title="engines", text="# Engines\n\nThey are in the report.")
INSTRUCTION = MemoryFileEntry(kind="instruction", occasion=AT, title="system", text="Read the whole page first.")
ALL = (HINT, EXEMPLAR, SNIPPET, RECIPE, SKILL, INSTRUCTION)


def write_memory_file(entries: Iterable[MemoryFileEntry]) -> str:
    (text,) = write_memory_files(entries)
    return text


def test_what_was_written_is_read_again_whatever_the_order() -> None:
    assert {entry.piece for entry in read_memory_file(write_memory_file(ALL))} == {entry.piece for entry in ALL}
    assert (
        write_memory_file(ALL)
        == write_memory_file(ALL[::-1])
        == write_memory_file(read_memory_file(write_memory_file(ALL)))
    )


@pytest.mark.parametrize(("bound", "most"), [("MOST_PIECES", 3), ("MOST_STEPS", 2), ("MOST_BYTES", 1_500)])
def test_what_one_file_may_not_hold_goes_into_several_that_can_be_read(
    monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    monkeypatch.setattr(memory_file, bound, most)
    texts = write_memory_files(ALL[:4])
    read = [entry for text in texts for entry in read_memory_file(text)]
    assert (len(texts), sorted(entry.piece for entry in read)) == (2, sorted(entry.piece for entry in ALL[:4]))
    assert bound != "MOST_BYTES" or max(len(text.encode()) for text in texts) <= most


def test_what_was_edited_is_another_piece_but_for_its_words_and_rank() -> None:
    text = write_memory_file([HINT])
    assert read_memory_file(text.replace("Haul-out", "Yearly"))[0].piece != HINT.piece
    assert read_memory_file(text.replace("/boats/*/papers", "/boats"))[0].piece != HINT.piece
    assert read_memory_file(text.replace("in the report", "at the end").replace("600000", "1"))[0].piece == HINT.piece


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("flywheel-memory-1", "flywheel-memory-2", "form"),
        ('"prefer_target"', '"explode"', "pieces.0.change"),
        ('"click"', '"hover"', "pieces.0.occasion.type"),
        ('"rank": 600000', '"rank": 2000000', "pieces.0.rank"),
        ('"text"', '"remark"', "pieces.0"),
        ("{", "", "the file"),
    ],
)
def test_one_mistake_refuses_the_whole_file_and_says_where(old: str, new: str, words: str) -> None:
    with pytest.raises(BadMemoryFile) as caught:
        read_memory_file(write_memory_file([HINT]).replace(old, new, 1))
    assert words in str(caught.value)


def test_a_piece_twice_or_a_recipe_without_a_name_refuses_the_file() -> None:
    twice = json.loads(write_memory_file([HINT]))
    twice["pieces"] *= 2
    with pytest.raises(BadMemoryFile, match="twice"):
        read_memory_file(json.dumps(twice))
    with pytest.raises(BadMemoryFile, match="no title"):
        read_memory_file(write_memory_file([RECIPE.model_copy(update={"title": " "})]))


def test_a_skill_has_a_title_and_an_instruction_needs_none() -> None:
    with pytest.raises(BadMemoryFile, match="no title"):
        read_memory_file(write_memory_file([SKILL.model_copy(update={"title": ""})]))
    untitled = INSTRUCTION.model_copy(update={"title": ""})
    assert read_memory_file(write_memory_file([untitled])) == (untitled,)


@pytest.mark.parametrize("entry", [SKILL, INSTRUCTION])
def test_a_skill_and_an_instruction_have_no_change(entry: MemoryFileEntry) -> None:
    with pytest.raises(BadMemoryFile, match="a text alone"):
        read_memory_file(write_memory_file([entry.model_copy(update={"change": HINT.change})]))


def test_each_kind_becomes_its_own_fact_with_nobodys_run() -> None:
    kinds = (HintRecorded, ExemplarCaptured, SnippetLearned, RecipeImported, PieceProposed, PieceProposed)
    for entry, kind in zip(ALL, kinds, strict=True):
        event = entry.event(PairedRule())
        assert isinstance(event, kind)
        assert (event.source, event.run, event.occasion) == ("imported", None, AT)
        assert event.content == entry.content.digest
        assert text_and_change(entry.content.body) == (entry.text, entry.change)


def test_a_rewrite_is_written_as_a_recipe_of_its_step() -> None:
    piece = Piece("rw-a", anchor_of(OPEN), ReplaceUrl(url="/boats-2"), 3, 500_000)
    entry = entry_of_rewrite(piece, "marketplace", "open /boats-2")
    assert (entry.kind, entry.occasion.intent, entry.change) == ("recipe", OPEN.intent, piece.change)
    assert read_memory_file(write_memory_file([entry])) == (entry,)


def trial(won: bool, controls: str, tried: Way = "treated", *, counts: bool = True) -> TrialRow:
    told = {"tried": tried, "won": won, "controls_passed": controls, "counts": counts}
    return msgspec.convert({"since": 1, "run": "r", "k": 1, "U": 1, "V": 1, "status": "candidate", **told}, TrialRow)


def test_uplift_is_how_much_more_often_runs_with_a_piece_passed() -> None:
    always = uplift([trial(True, "0 of 3")] * 10)
    assert always == Uplift(trials=10, seeds=10, mean=1_000_000, low=1_000_000, high=1_000_000)
    nothing = uplift([trial(True, "3 of 3"), trial(False, "0 of 3")] * 10)
    assert nothing is not None
    assert (nothing.mean, nothing.trials) == (0, 20)
    mixed = uplift([trial(True, "1 of 3"), trial(False, "1 of 3"), trial(True, "0 of 3")] * 8)
    assert mixed is not None
    assert mixed.low < mixed.mean < mixed.high
    assert mixed == uplift([trial(True, "1 of 3"), trial(False, "1 of 3"), trial(True, "0 of 3")] * 8)


def test_uplift_with_and_without_are_apart_and_a_trial_without_controls_is_none() -> None:
    trials = [trial(True, "0 of 3"), trial(False, "3 of 3", "withheld"), trial(True, "")]
    with_, without = uplift(trials), uplift(trials, "withheld")
    assert with_ is not None
    assert without is not None
    assert (with_.trials, with_.mean, without.mean) == (1, 1_000_000, -1_000_000)
    assert uplift([trial(True, "")]) is None


def test_trials_at_one_seed_are_one_unit_of_an_uplift() -> None:
    trials = [msgspec.structs.replace(trial(True, "0 of 3"), env_seed=seed) for seed in (1, 1, 1, 2)]
    trials.append(msgspec.structs.replace(trial(False, "3 of 3"), env_seed=3))
    found = uplift(trials)
    assert found is not None
    assert (found.trials, found.seeds, found.mean) == (5, 3, 333_333)


def test_a_trial_that_does_not_count_enters_no_uplift() -> None:
    trials = [trial(True, "3 of 3"), trial(True, "0 of 3", counts=False)]
    assert uplift(trials) == uplift(trials[:1])
    assert uplift(trials[1:]) is None
