"""The demonstration of lessons in words: the rule agent reads foreign pages, and no site of the school is judged."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, Final

import pytest

from agents.envs.miniwob.view import View, VisibleElement
from agents.learning.advice import advice_paragraph
from agents.learning.memory_file import MemoryFileEntry
from agents.models.model import ChatMessage, CompletionRequest
from benchmarks.demo_agents.click_school import FRAMES as FRAMES_AT_SCHOOL
from benchmarks.demo_agents.click_school import NAMES as NAMES_AT_SCHOOL
from benchmarks.demo_agents.click_school import SIGNS as SIGNS_AT_SCHOOL
from benchmarks.demo_agents.click_school import TASKS as TASKS_AT_SCHOOL
from benchmarks.demo_agents.click_school import UNNAMED as UNNAMED_AT_SCHOOL
from benchmarks.demo_agents.click_school import Lecture, lecture_of
from benchmarks.demo_agents.clicking import JUDGED as CLICKED
from benchmarks.demo_agents.clicking import KINDS as PAGE_KINDS
from benchmarks.demo_agents.clicking import PROPOSED
from benchmarks.demo_agents.clicking import todo as pages_to_learn
from benchmarks.demo_agents.learning import Measured, decided_candidacies, project_of
from benchmarks.demo_agents.pages import OPEN, choices_on, named_on
from benchmarks.demo_agents.policy import JUDGED, Effort
from benchmarks.demo_agents.policy import KINDS as SITE_KINDS
from benchmarks.demo_agents.policy import todo as sites_to_learn
from benchmarks.demo_agents.rules import chance_desk, lessons_of_nothing
from benchmarks.demo_agents.school import school_desk, task_of
from benchmarks.demo_agents.tables import figures_of, targets_of
from eventlog.database import schema_name
from eventlog.events import Occasion, PairedRule, PieceTried, Sampling, Step
from projections.memories import LOOSE
from tests.desks.desk import Desk
from tests.desks.pages import page
from tests.followers import Follower, answer, parse_lesson
from tests.unit.test_agent_samples import a_store, add, views

PAGE = """ok
<page>
Enter "ann" into the text field and press Submit.
0,0 160x50 div "Enter "
5,60 100x20 input:text (field 1)
5,90 60x20 select (Colour) = 'Red' [Red | Blue]
5,120 60x20 button "Submit"
5,150 60x20 div "no control"
</page>"""
PLAN = (
    Step(type="fill_field", intent="x", label="Text field", value="{quoted}"),
    Step(type="submit", intent="x", label="Submit"),
)
WRITE = "write '(quoted)' into 'Text field'"


def ask(told: str, *done: tuple[str, str]) -> tuple[str, str, str]:
    """What the agent does next on the page, told a lesson."""
    messages = [ChatMessage("system", ("Act.",))]
    messages.append(ChatMessage("user", (f"The task:\nEnter it.\n\n{advice_paragraph(filter(None, [told]))}No page.",)))
    for sentence, outcome in (("open /", PAGE), *done):
        messages += [ChatMessage("assistant", (answer(sentence),)), ChatMessage("user", (outcome,))]
    follower = Follower((OPEN, *PLAN), "Enter it.", 0.0, choices_on, named_on)
    found = json.loads(follower(CompletionRequest(tuple(messages), Sampling(temperature_micro=0, max_tokens=99))))
    return found["action"], found["target"], found["value"]


@pytest.mark.parametrize(
    ("wanted", "choices"),
    [
        (WRITE, ["write '(quoted)' into 'field *'", "write '(quoted)' into 'Colour'"]),
        ("choose 'Blue' at 'Color'", ["choose 'Blue' at 'Colour'"]),
        ("follow the link 'x'", ["follow the link 'field *'", "follow the link 'Colour'", "follow the link 'Submit'"]),
    ],
)
def test_the_agent_sees_in_a_view_what_could_be_meant_by_what_it_wants(wanted: str, choices: list[str]) -> None:
    assert [*choices_on(PAGE, wanted)] == choices


def test_a_lesson_without_the_number_of_one_page_is_followed_with_the_name_on_this_page() -> None:
    told = f"On /: write '(quoted)' into 'field *', not: {WRITE}."
    assert ask("") == ("fill_field", "Text field", "{quoted}")
    assert ask(told) == ("fill_field", "field 1", "{quoted}")
    assert ask(told, ("write '{quoted}' into 'field 1'", PAGE)) == ("submit", "Submit", "")


def test_what_a_lesson_says_comes_next_is_done_where_it_can_be_done() -> None:
    assert ask("Next: follow the link 'Submit'. A run that passed did so; one that failed did not.")[1] == "Submit"
    assert ask("Next: follow the link 'Elsewhere'. A run that passed did so.") == ask("")


def test_the_policy_is_judged_on_sites_whose_names_and_words_it_was_not_trained_on() -> None:
    def words(told: str) -> set[str]:
        return {word.strip(".,").casefold() for word in told.split()}

    school = [school_desk(number) for number in range(Effort().sites)]
    common = words("Open / and then the at , follow the, write Alex Morgan into, and press.")
    known = set[str]().union(*(words(task_of(desk).instruction) for desk in school)) - common
    assert len({desk.words.site for desk in (*school, *JUDGED)}) == len(school) + len(JUDGED)
    assert len({desk.words.things for desk in school}) == len({desk.words.send for desk in school}) == len(school)
    told = {each for desk in school for each in (desk.words.prerequisite, desk.words.confirm[1], *desk.words.moved)}
    for desk in JUDGED:
        assert known.isdisjoint(words(f"{desk.words.who} {desk.words.send} {desk.words.kinds[0]} {desk.words.things}"))
        assert told.isdisjoint({desk.words.prerequisite, desk.words.confirm[1], *desk.words.moved})


LABELS: Final = NAMES_AT_SCHOOL[:12]
SHOWN: Final = tuple(VisibleElement(kind="button", box=(0, 0, 1, 1), at=(0, 0), text=text) for text in LABELS)
ASKED: Final = f'Click on the "{LABELS[0]}" button.'
LECTURES: Final = [lecture_of(View(instruction=ASKED, shown=SHOWN), seed) for seed in range(120)]


@pytest.mark.parametrize("lecture", LECTURES)
def test_what_is_clicked_at_school_follows_from_what_the_page_shows_and_the_lessons_say(lecture: Lecture) -> None:
    named = [name for name in NAMES_AT_SCHOOL if any(f"'{name}'" in line for line in lecture.advice)]
    assert lecture.clicked == LABELS[0]
    if LABELS[0] in lecture.instruction:
        assert LABELS[0] not in named
    else:
        asks = [f'"{label}"' for label in LABELS] + [f"called {label}." for label in LABELS]
        assert not any(each in lecture.instruction for each in asks)
        assert [name for name in named if name in LABELS] == [LABELS[0]]


def test_demonstrations_at_school_are_of_every_kind() -> None:
    asks = [each.instruction for each in LECTURES]
    assert {*asks} > {ASKED, "Click on the button."}
    assert {*asks} & {*UNNAMED_AT_SCHOOL}
    assert any(f'Click on the "{sign}" button.' in asks for sign in SIGNS_AT_SCHOOL)
    assert all(any(LABELS[0] in said and said.startswith(frame[:4]) for said in asks) for frame in FRAMES_AT_SCHOOL)
    useless = [line for each in LECTURES if LABELS[0] in each.instruction for line in each.advice]
    assert {any(f"'{label}'" in line for label in LABELS) for line in useless} == {True, False}
    assert {(LABELS[0] in each.instruction, each.in_task, len(each.advice)) for each in LECTURES} == {
        *((True, in_task, many) for in_task in (True, False) for many in (0, 1)),
        *((False, in_task, many) for in_task in (True, False) for many in (1, 2)),
    }


def test_a_page_that_asks_for_something_with_a_number_asks_by_its_name_at_school() -> None:
    view = View(instruction="Click on Tab #2.", shown=())
    assert all("Tab #2" in lecture_of(view, seed).instruction for seed in range(40))


def test_no_judged_page_and_no_word_that_cures_one_is_seen_at_school() -> None:
    assert TASKS_AT_SCHOOL
    assert {*TASKS_AT_SCHOOL}.isdisjoint(CLICKED)
    assert {*PROPOSED, "x"}.isdisjoint({*NAMES_AT_SCHOOL, *SIGNS_AT_SCHOOL})


def test_every_place_and_kinds_of_lessons_have_a_project_of_their_own() -> None:
    todo = [each for is_alone in (False, True) for each in sites_to_learn(JUDGED, is_alone=is_alone)]
    sites = [project_of(desk.words.site, SITE_KINDS[lessons]) for lessons, desk in todo]
    pages = [project_of(task, PAGE_KINDS[lessons]) for lessons, task in pages_to_learn()]
    assert len({*map(schema_name, (*sites, *pages))}) == len(sites) + len(pages)


def a_task(*, is_control: bool, tried: int = 3) -> Measured:
    return Measured("gate page", "clinic", is_control, "every kind", 1, 8, 10, (), 9, 9, tried, 40)


def test_only_what_was_measured_has_figures_and_targets() -> None:
    curable, control = a_task(is_control=False), a_task(is_control=True)
    found = {each: figures_of(list(tasks))[0] for each, tasks in (("cured", [curable]), ("control", [control]))}
    assert found["cured"] == {"every kind, before": 0.1, "every kind, after": 0.8}
    assert found["control"].keys() == {"control, tried", "control, decided", "control, promoted", "control, after"}
    assert targets_of(found["cured"], "every kind", 300).keys() == {"most bytes told", "every kind, after"}
    assert targets_of(found["control"], "every kind", 300).keys() == {"most bytes told", "control, promoted"}


def test_sentences_that_do_nothing_are_different_lessons_about_a_page_that_no_link_leads_to() -> None:
    lessons = [parse_lesson(each) for each in lessons_of_nothing()]
    assert len({*lessons}) == len(lessons) > 400
    assert {each and each.page for each in lessons} == {"/archive"}
    shown = page(Desk(chance_desk(0), 1), "", "").body
    assert b"/news" in shown
    assert b"/archive" not in shown


def trial(piece: str, number: int, *, withheld: bool) -> PieceTried:
    """A trial at a seed of its own whose run passed, where none of three others did."""
    return PieceTried(
        piece=piece,
        kind="instruction",
        run=f"r{number}",
        control_runs=(f"a{number}", f"b{number}", f"c{number}"),
        control_successes=0,
        won=True,
        withheld=withheld,
        env_seed=number,
    )


def test_a_promotion_that_was_taken_back_counts_and_a_candidacy_that_is_not_decided_does_not() -> None:
    store = a_store()
    occasion = Occasion(environment="clinic", type="navigate", intent="", page="", cluster="c")
    entry = MemoryFileEntry(kind="instruction", occasion=occasion, text="Look.")
    stream, trials = f"instruction/{entry.piece}", [trial(entry.piece, n, withheld=n >= 8) for n in range(68)]
    add(store, stream, entry.event(PairedRule.current()), *trials[:3])
    house: Any = SimpleNamespace(store=store)
    assert decided_candidacies(house, ["instruction"]) == (0, 0)
    add(store, stream, *trials[3:])
    assert views(store).find(LOOSE["instruction"])[entry.piece].status == "demoted"
    assert decided_candidacies(house, ["instruction", "hint"]) == (1, 1)


def test_where_chance_decides_each_noise_index_of_a_seed_draws_anew_and_half_of_them_pass() -> None:
    desk = chance_desk(0)
    drawn = [[Desk(desk, seed, repeat=repeat).has("sold out") for repeat in range(8)] for seed in range(50)]
    assert 0.4 < sum(map(sum, drawn)) / 400 < 0.6
    assert sum(len({*each}) == 2 for each in drawn) > 45
    assert Desk(desk, 1).fingerprint() == Desk(desk, 1, repeat=5).fingerprint()
