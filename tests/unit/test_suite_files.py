"""What a suite file may say, and how its faults are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.envs.contract import TaskText
from agents.suites.bundled import bundled_for, bundled_suites
from agents.suites.errors import BadSuite, NoPlan, NoSuite, NotGradedHere, OtherEnvironment
from agents.suites.in_log import VersionedSuite, find_suite, register_suite, suite_for
from agents.suites.suite_file import check_suite, read_suite, suite_digest, suite_from, suite_text
from agents.suites.tasks import misfits, operations_of, refuse_planless, tasks_on, templates_of
from eventlog.events import EnvironmentRegistered, Step, Suite, SuiteSeeds
from eventlog.memory import MemoryStore
from eventlog.store import Append
from projections.engine.views import ReplayedViews
from tests.unit.test_agent_samples import a_store

GOOD = """
name = "shop"
environment = "shop"

[seeds]
training = "0-99"
sealed = "200-299"

[[tasks]]
id = "buy"
oracle_task = "shop.buy"
instruction = "Buy the cheapest jacket."
cluster = "navigation"
plan = [
  { type = "navigate", intent = "open the shop", url = "/" },
  { type = "submit", intent = "buy", label = "Buy" },
]

[[tasks]]
id = "shop.sell"
max_steps = 7
threshold = 0.25
plan = "Go to the first page and press Sell."

[[tasks]]
id = "shop.look"

[[operations]]
kind = "buy"
labels = ["Buy", "Order"]
records = ["order_placed"]
"""
GRADED = (
    TaskText(task_id="shop.buy", instruction="Buy.", cluster="control"),
    TaskText(task_id="shop.look", instruction="Look."),
    TaskText(task_id="shop.sell", instruction="Sell."),
)
SMALL = {"name": "s", "environment": "e", "tasks": [{"id": "a"}]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "suite.toml"
    made.write_text(GOOD)
    return made


def read(file: Path) -> Suite:
    found = check_suite(file)
    assert isinstance(found, Suite), found
    return found


def test_what_a_suite_leaves_out_the_environment_says(file: Path) -> None:
    buy, look, sell = templates_of(read_suite(file), "shop", GRADED)
    assert (buy.template_id, buy.oracle_task_id, buy.instruction) == ("buy", "shop.buy", "Buy the cheapest jacket.")
    assert (buy.cluster, buy.plan_text, [step.type for step in buy.plan_steps]) == (
        "navigation",
        None,
        ["navigate", "submit"],
    )
    assert (look.instruction, look.cluster, look.plan_text, look.max_steps) == ("Look.", "unsorted", "Look.", 40)
    assert (sell.plan_text, sell.max_steps) == ("Go to the first page and press Sell.", 7)
    assert read(file).tasks[1].threshold_micro == 250_000


def test_a_task_without_a_plan_is_for_agents_only(file: Path) -> None:
    found = templates_of(read_suite(file), "shop", GRADED)
    with pytest.raises(NoPlan, match=r"for shop\.look, shop\.sell: .*--executor policy"):
        refuse_planless(found)
    refuse_planless(found[:1])


def test_a_suite_is_for_its_environment_and_for_the_tasks_that_it_grades(file: Path) -> None:
    with pytest.raises(NotGradedHere, match=r"'buy' with the oracle task 'shop\.buy': .*shop grades: shop\.look"):
        templates_of(read_suite(file), "shop", GRADED[1:])
    with pytest.raises(OtherEnvironment, match="'shop'"):
        templates_of(read_suite(file), "harbour", GRADED)
    with pytest.raises(NotGradedHere, match=r"shop \(.*suite\.toml, line 11, tasks\.0\.oracle_task\) has task 'buy'"):
        tasks_on(read_suite(file), "shop", GRADED[1:], file)
    with pytest.raises(NotGradedHere, match=r"suite\.toml, line 20, tasks\.1\.id\) has task 'shop\.sell'"):
        tasks_on(read_suite(file), "shop", GRADED[:2], file)
    with pytest.raises(OtherEnvironment, match=r"suite\.toml, line 3, environment\) is for the environment 'shop'"):
        tasks_on(read_suite(file), "harbour", GRADED, file)
    assert [place for place, _ in misfits(read_suite(file), "shop", ())] == [
        ("tasks", 0, "oracle_task"),
        ("tasks", 1, "id"),
        ("tasks", 2, "id"),
    ]
    assert list(misfits(read_suite(file), "shop", GRADED)) == []


def test_a_suite_of_a_family_serves_each_environment_with_the_tasks_that_it_grades(file: Path) -> None:
    assert [each.template_id for each in templates_of(read_suite(file), "shop.sell", GRADED[2:])] == ["shop.sell"]
    with pytest.raises(NotGradedHere):
        templates_of(read_suite(file), "shop.other", ())


def test_the_kind_of_a_step_is_found_by_its_caption(file: Path) -> None:
    operations = operations_of(read_suite(file).operations)
    assert operations.table == {"buy": {"order_placed"}}
    kinds = [operations.kind_of(*each) for each in (("submit", " order "), ("click", "Buy"), ("submit", "Sell"))]
    assert kinds == ["buy", "navigate", None]


def test_a_suite_can_be_written_and_read_back(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "suite.json"
    other.write_text(suite_text(read_suite(file)))
    assert read_suite(other) == read_suite(file)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('id = "buy"', 'id = "shop.sell"', r"line 20, tasks\.1\.id: 'shop\.sell' stands there twice"),
        ("max_steps = 7", "maximum = 7", r"line 21, tasks\.1\.maximum: Extra inputs"),
        ('"shop.look"', '"shop.look"\nplan = []', r"tasks\.2\.plan: Tuple should have at least 1 item"),
        ('type = "submit"', 'type = "fly"', r"line 16, tasks\.0\.plan\.1\.type: Input should be 'navigate'"),
        ('"/"', '"https://elsewhere.test/"', r"line 15, tasks\.0\.plan\.0\.url: it names another place"),
        (', label = "Buy"', "", r"tasks\.0\.plan\.1: a step of the type submit needs `label`"),
        (
            ', label = "Buy"',
            ', label = "Buy", loop_to = 3, loop_count = 1',
            r"loop_to: it is 3; expected a step before",
        ),
        ('"200-299"', '"90-299"', r"line 5, seeds: the training seeds 0-99 overlap the sealed seeds 90-299"),
        ('"0-99"', '"some"', r"line 6, seeds\.training: 'some' is not a range of seeds"),
        ('"0-99"', '"9-0"', r"seeds\.training: the range 9-0 ends before it begins"),
        ("0.25", "25", r"line 22, tasks\.1\.threshold: the score is 25, not between 0 and 1"),
        ("threshold = 0.25", "threshold_micro = 5", r"tasks\.1\.threshold_micro: it is not a field of a file"),
        ('"Order"', '"buy"', r"operations\.0\.labels: 'buy' stands there twice"),
        ('name = "shop"', 'name = "my shop"', r"line 2, name: String should match"),
        ('name = "shop"', "", r"name: Field required"),
        ("[[tasks]]", "[[tasks", r"Expected .* \(at line 9"),
    ],
)
def test_a_fault_is_named_with_its_line_its_field_and_the_way_out(file: Path, old: str, new: str, fault: str) -> None:
    assert old in GOOD
    file.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(BadSuite, match=fault) as caught:
        read_suite(file)
    assert str(file) in str(caught.value)
    assert caught.value.is_usage


def test_every_fault_is_listed(file: Path) -> None:
    file.write_text(GOOD.replace('"submit"', '"fly"').replace("max_steps", "maximum"))
    found = check_suite(file)
    assert not isinstance(found, Suite)
    assert len(found) == 2


def test_a_field_that_stands_twice_in_json_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "suite.json"
    file.write_text('{"name": "s", "name": "t", "environment": "e", "tasks": [{"id": "a"}]}')
    with pytest.raises(BadSuite, match="'name' stands twice"):
        read_suite(file)
    with pytest.raises(BadSuite, match="No such file"):
        read_suite(tmp_path / "missing.toml")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(field=st.sampled_from(["name", "environment", "tasks", "operations", "seeds"]), value=JSON)
def test_whatever_stands_in_a_file_is_a_suite_or_has_a_fault(field: str, value: object) -> None:
    found = suite_from(SMALL | {field: value})
    assert isinstance(found, Suite) or found
    assert isinstance(suite_from(value), tuple)


@given(first=st.tuples(*[st.integers(0, 99)] * 2), second=st.tuples(*[st.integers(0, 99)] * 2))
def test_seeds_for_learning_and_sealed_seeds_never_meet(first: tuple[int, int], second: tuple[int, int]) -> None:
    given = SMALL | {"seeds": {"training": f"{first[0]}-{first[1]}", "sealed": f"{second[0]}-{second[1]}"}}
    found = suite_from(given)
    is_fine = first[0] <= first[1] and second[0] <= second[1] and (first[1] < second[0] or second[1] < first[0])
    assert isinstance(found, Suite) is is_fine
    if isinstance(found, Suite):
        assert not {*found.seeds.training.seeds} & {*found.seeds.sealed.seeds}


def views(store: MemoryStore) -> ReplayedViews:
    return ReplayedViews(store, store.head())


def test_a_version_is_brought_in_once_and_can_be_read_back(file: Path) -> None:
    store, suite = a_store(), read_suite(file)
    assert str(register_suite(store, views(store), suite, "test")) == "shop@1"
    assert str(register_suite(store, views(store), suite, "test")) == "shop@1"
    other = suite.model_copy(update={"seeds": SuiteSeeds()})
    assert register_suite(store, views(store), other, "test").version == 2
    assert find_suite(store, views(store), "shop") == VersionedSuite(other, 2)
    assert find_suite(store, views(store), "shop@1") == VersionedSuite(suite, 1)
    assert suite_digest(suite) != suite_digest(other)
    for named in ("shop@3", "shop@x", "harbour"):
        with pytest.raises(NoSuite, match=r"one of shop@1, shop@2"):
            find_suite(store, views(store), named)


def test_an_environment_takes_the_suite_of_its_registration(file: Path) -> None:
    store, suite = a_store(), read_suite(file)
    with pytest.raises(NoSuite, match="for the environment 'shop'"):
        suite_for(store, views(store), "shop")
    mine, older = suite, suite.model_copy(update={"name": "older"})
    for each in (older, mine):
        register_suite(store, views(store), each, "test")
    assert str(suite_for(store, views(store), "shop")) == "shop@1"
    registered = EnvironmentRegistered(
        environment="shop", token="FLYWHEEL_ENV_SHOP", url="http://127.0.0.1:1/", suite="older"
    )
    store.append([Append("environment/shop", (registered,), "test")])
    assert str(suite_for(store, views(store), "shop")) == "older@1"
    assert str(suite_for(store, views(store), "shop", "shop@1")) == "shop@1"


def test_a_bundled_suite_serves_where_the_log_has_none() -> None:
    store = a_store()
    (name, first), *_ = bundled_suites().items()
    assert suite_for(store, views(store), first.environment) == VersionedSuite(first, 0)
    assert bundled_for("a stranger") is None
    brought = register_suite(store, views(store), first, "test")
    assert suite_for(store, views(store), first.environment) == brought
    assert str(brought) == f"{name}@1"
    assert all(
        isinstance(step, Step) for suite in bundled_suites().values() for task in suite.tasks for step in task.steps
    )
    assert json.loads(suite_text(first))["seeds"]["training"] == "0-8999"
