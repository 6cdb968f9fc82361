from __future__ import annotations

import pytest

from eventlog.chain import digest
from eventlog.errors import FlywheelError
from gate.benchmark import freeze, specs
from gate.errors import DuplicateTask, EmptyBenchmark, SeedBothWays, TooFewRepeats
from tests.unit.test_gate_samples import benchmark, template


def test_tasks_are_templates_by_seeds_in_an_order_of_their_own() -> None:
    frozen = freeze("b", "shop", [template("t2"), template("t1")], [7], [42, 3], 2)
    assert [(task.template, task.env_seed, task.is_sealed) for task in frozen.tasks] == [
        ("t1", 3, True),
        ("t1", 7, False),
        ("t1", 42, True),
        ("t2", 3, True),
        ("t2", 7, False),
        ("t2", 42, True),
    ]


def test_the_digest_is_of_the_content_and_of_nothing_else() -> None:
    frozen = freeze("b", "shop", [template("t1"), template("t2")], [7], [42, 3], 2)
    payload = frozen.model_dump(mode="json", include={"environment", "templates", "tasks", "repeats"})
    assert frozen.digest == digest(payload).hex()
    assert frozen.digest == freeze("other", "shop", [template("t2"), template("t1")], [7], [3, 42], 2).digest


@pytest.mark.parametrize(
    ("environment", "templates", "visible", "sealed", "repeats"),
    [
        ("site", ["t1"], [7], [3], 2),
        ("shop", ["t2"], [7], [3], 2),
        ("shop", ["t1"], [8], [3], 2),
        ("shop", ["t1"], [3], [7], 2),
        ("shop", ["t1"], [7], [3], 3),
    ],
)
def test_each_part_of_the_content_changes_the_digest(
    environment: str, templates: list[str], visible: list[int], sealed: list[int], repeats: int
) -> None:
    changed = freeze("b", environment, [template(name) for name in templates], visible, sealed, repeats)
    assert changed.digest != freeze("b", "shop", [template("t1")], [7], [3], 2).digest


@pytest.mark.parametrize(
    ("templates", "visible", "sealed", "repeats", "error", "words"),
    [
        ([], [7], [3], 1, EmptyBenchmark, "has no template"),
        (["t1"], [7], [], 1, EmptyBenchmark, "has no sealed seed"),
        (["t1"], [7], [3], 0, TooFewRepeats, "asks for 0 repeats"),
        (["t1", "t1"], [7], [3], 1, DuplicateTask, "template 't1'"),
        (["t1"], [7, 7], [3], 1, DuplicateTask, "visible seed 7"),
        (["t1"], [7], [3, 3], 1, DuplicateTask, "sealed seed 3"),
        (["t1"], [7, 3], [3], 1, SeedBothWays, "seed 3"),
    ],
)
def test_what_cannot_be_frozen_is_refused(
    templates: list[str],
    visible: list[int],
    sealed: list[int],
    repeats: int,
    error: type[FlywheelError],
    words: str,
) -> None:
    with pytest.raises(error, match=words):
        freeze("b", "shop", [template(name) for name in templates], visible, sealed, repeats)


def test_specs_fill_every_place_once_and_the_arms_alternate() -> None:
    frozen = benchmark(sealed=3, repeats=2, visible=1, templates=("t1", "t2"))
    planned = specs(frozen, "ev1")
    assert len(planned) == 2 * 2 * 8
    assert [item.arm.arm for item in planned] == ["champion", "challenger"] * 16
    assert len({item.spec.spec_id for item in planned}) == len(planned)
    first, second = planned[::2], planned[1::2]
    for champion, challenger in zip(first, second, strict=True):
        assert (champion.spec.template, champion.spec.env_seed, champion.arm.repeat) == (
            challenger.spec.template,
            challenger.spec.env_seed,
            challenger.arm.repeat,
        )


def test_specs_are_named_by_evaluation_arm_task_and_repeat() -> None:
    frozen = benchmark(sealed=1, repeats=2, visible=1)
    planned = {item.spec.spec_id: item for item in specs(frozen, "ev1")}
    item = planned["ev1__challenger__t1__seed0__r1"]
    assert item.spec.group_id == "ev1__challenger__t1__seed0"
    assert (item.spec.sweep, item.spec.sibling_index, item.spec.candidate) == ("ev1", 1, None)
    assert (item.arm.evaluation, item.arm.benchmark, item.arm.repeat, item.arm.is_sealed) == ("ev1", "bench", 1, True)
    assert not planned["ev1__champion__t1__seed1000__r0"].arm.is_sealed
