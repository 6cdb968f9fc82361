from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from projections.datasets.row_columns import TRAINED, Kind
from trainer.errors import (
    BadRow,
    DatasetEmpty,
    RequestUnreadable,
    RowsUnreadable,
    SamplingCut,
    TemperaturesMixed,
    WrongColumn,
)
from trainer.grpo import schedule, signal_of
from trainer.request import GrpoConfig, Lora, SftConfig, TrainingRequest, WarmupRequest, read_request
from trainer.rows import read_rows

ROW: dict[str, Any] = {
    "prompt_ids": [5, 6],
    "completion_ids": [7, 8, 2],
    "logprobs": [-0.5, 0.0, -1.5],
    "mask": [1, 0, 1],
    "advantage": 1.0,
    "reward": 1_000_000,
    "temperature": 1.0,
    "run": "a",
    "group": "g",
    "position": 4,
    "tokenizer": "t" * 64,
    "chat_template": "c" * 64,
}


def stored(folder: Path, rows: list[dict[str, Any]], kind: Kind = "grpo", **types: Any) -> Path:
    schema = {name: kept for name, kept in (dict(TRAINED[kind]) | types).items() if kept is not None}
    file = folder / f"{len(list(folder.iterdir()))}.parquet"
    pl.DataFrame(rows, schema=schema).write_parquet(file)
    return file


def test_the_digest_is_over_content_and_not_over_the_file(tmp_path: Path) -> None:
    rows = [ROW, {**ROW, "run": "b", "position": 9}]
    first = read_rows(stored(tmp_path, rows), "grpo")
    frame = pl.read_parquet(first.path)
    other = tmp_path / "other.parquet"
    narrow = frame.with_columns(pl.col("completion_ids").cast(pl.List(pl.UInt16)), prompt=pl.lit("text"))
    narrow.select(sorted(narrow.columns)).write_parquet(other, compression="uncompressed", row_group_size=1)
    assert read_rows(other, "grpo").digest == first.digest


@pytest.mark.parametrize("column", sorted(ROW))
def test_a_change_in_any_column_changes_the_digest(tmp_path: Path, column: str) -> None:
    changed: dict[str, Any] = {
        "prompt_ids": [5, 9],
        "completion_ids": [7, 9, 2],
        "logprobs": [-0.5, 0.0, -1.25],
        "mask": [0, 0, 1],
        "temperature": 0.7,
    }
    value = changed[column] if column in changed else ROW[column] + ("x" if isinstance(ROW[column], str) else 1)
    before, after = (read_rows(stored(tmp_path, [row]), "grpo") for row in (ROW, {**ROW, column: value}))
    assert before.digest != after.digest


def test_the_border_between_prompt_and_completion_counts(tmp_path: Path) -> None:
    moved = {**ROW, "prompt_ids": [5], "completion_ids": [6, 7, 8, 2], "logprobs": [0.0, -0.5, 0.0, -1.5]}
    digests = {read_rows(stored(tmp_path, [row]), "grpo").digest for row in (ROW, {**moved, "mask": [0, 1, 0, 1]})}
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"logprobs": [-0.5, 0.0]}, "logprobs and completion_ids differ in length"),
        ({"mask": [1, 0, 1, 1]}, "mask and completion_ids differ in length"),
        ({"logprobs": [-0.5, 0.0, float("nan")]}, "not finite"),
        ({"logprobs": [-0.5, 0.0, float("-inf")]}, "not finite"),
        ({"logprobs": [-0.5, None, -1.0]}, "logprobs is not known"),
        ({"logprobs": None}, "logprobs is not known"),
        ({"advantage": None}, "advantage is not known"),
        ({"advantage": float("inf")}, "advantage is not finite"),
        ({"mask": [0, 0, 0]}, "marks no token"),
        ({"mask": [1, 2, 1]}, "mask holds .* 0 and 1"),
        ({"completion_ids": [], "logprobs": [], "mask": []}, "marks no token"),
        ({"prompt_ids": []}, "prompt is empty"),
        ({"temperature": 0.0}, "temperature is not above 0"),
    ],
)
def test_a_row_that_cannot_be_trained_on_is_named(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRow, match=said) as caught:
        read_rows(stored(tmp_path, [ROW, {**ROW, **changes}]), "grpo")
    assert caught.value.facts["row"] == 1


def test_a_dataset_of_another_kind_is_refused(tmp_path: Path) -> None:
    rows = [{name: ROW[name] for name in TRAINED["sft"]}]
    with pytest.raises(WrongColumn, match="'logprobs' is missing"):
        read_rows(stored(tmp_path, rows, "sft"), "grpo")


@pytest.mark.parametrize(
    ("column", "kept"),
    [("completion_ids", pl.List(pl.Float64)), ("advantage", pl.String), ("position", pl.List(pl.Int64))],
)
def test_a_column_of_another_type_is_refused(tmp_path: Path, column: str, kept: Any) -> None:
    value = {"completion_ids": [7.0, 8.0, 2.0], "advantage": "1", "position": [4]}[column]
    with pytest.raises(WrongColumn, match=column):
        read_rows(stored(tmp_path, [{**ROW, column: value}], **{column: kept}), "grpo")


def test_no_rows_and_no_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetEmpty):
        read_rows(stored(tmp_path, []), "grpo")
    with pytest.raises(RowsUnreadable):
        read_rows(tmp_path / "nowhere.parquet", "grpo")
    (tmp_path / "text.parquet").write_text("no Parquet")
    with pytest.raises(RowsUnreadable):
        read_rows(tmp_path / "text.parquet", "grpo")


def test_two_temperatures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TemperaturesMixed):
        read_rows(stored(tmp_path, [ROW, {**ROW, "temperature": 0.5}]), "grpo")


def test_sampling_that_was_cut_is_refused_for_the_ratio_alone(tmp_path: Path) -> None:
    whole, cut = {**ROW, "top_p": 1.0}, {**ROW, "top_p": 0.99}
    assert read_rows(stored(tmp_path, [whole], top_p=pl.Float64()), "grpo").frame.columns == list(TRAINED["grpo"])
    with pytest.raises(SamplingCut, match=r"top_p 0\.99: expected 1"):
        read_rows(stored(tmp_path, [whole, cut], top_p=pl.Float64()), "grpo")
    with pytest.raises(BadRow, match="top_p is not known"):
        read_rows(stored(tmp_path, [{**ROW, "top_p": None}], top_p=pl.Float64()), "grpo")
    imitated = {name: value for name, value in cut.items() if name in {*TRAINED["sft"], "top_p"}}
    assert len(read_rows(stored(tmp_path, [imitated], "sft", top_p=pl.Float64()), "sft").frame) == 1


def grouped(folder: Path, advantages: dict[str, list[float]]) -> Path:
    rows = [{**ROW, "group": group, "advantage": value} for group, found in advantages.items() for value in found]
    return stored(folder, rows)


def test_flat_groups_are_counted_and_left_out(tmp_path: Path) -> None:
    rows = read_rows(grouped(tmp_path, {"b": [1.0, -1.0], "a": [0.0, 0.0, 0.0], "c": [2.0, -1.0, -1.0]}), "grpo")
    groups, flat = signal_of(rows)
    assert [(group.name, group.rows) for group in groups] == [("b", (0, 1)), ("c", (5, 6, 7))]
    assert flat == 1


@pytest.fixture
def config() -> Callable[..., GrpoConfig]:
    return lambda **changes: GrpoConfig(steps=7, learning_rate="0.001", groups_per_step=2, **changes)


def test_each_round_takes_every_group_once_in_an_order_of_the_seed(
    tmp_path: Path, config: Callable[..., GrpoConfig]
) -> None:
    groups, _ = signal_of(read_rows(grouped(tmp_path, {f"g{n}": [1.0, -1.0] for n in range(6)}), "grpo"))
    taken = schedule(groups, config())
    assert len(taken) == 7
    for first in (0, 3):
        round_of = [group.name for batch in taken[first : first + 3] for group in batch]
        assert sorted(round_of) == sorted(group.name for group in groups)
    assert taken[:3] != taken[3:6]
    assert taken == schedule(groups, config())
    assert taken != schedule(groups, config(seed=1))
    assert len(schedule(groups, config(passes=2))) == 4


def test_fewer_groups_than_a_step_wants_are_taken_once_each(tmp_path: Path, config: Callable[..., GrpoConfig]) -> None:
    groups, _ = signal_of(read_rows(grouped(tmp_path, {"only": [1.0, -1.0]}), "grpo"))
    assert {len(batch) for batch in schedule(groups, config())} == {1}


def test_a_number_has_one_way_to_be_written() -> None:
    assert SftConfig(steps=1, learning_rate="1e-3") == SftConfig(steps=1, learning_rate="0.0010")
    assert SftConfig(steps=1, learning_rate="100", lora=Lora()).learning_rate == "100"


WHOLE: dict[str, Any] = {
    "dataset": {"path": "rows.parquet", "digest": "d" * 64, "upto": 12},
    "base": "bases/b",
    "out": "checkpoints",
    "config": {"algorithm": "sft", "steps": 1, "learning_rate": "1e-3"},
}


def test_a_request_is_read(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(WHOLE))
    request = read_request(file)
    assert isinstance(request, TrainingRequest)
    assert (request.config.algorithm, request.config.learning_rate, request.parent) == ("sft", "0.001", None)


def test_a_warm_up_is_a_request_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(WHOLE | {"config": {**WHOLE["config"], "algorithm": "warmup"}}))
    assert isinstance(read_request(file), WarmupRequest)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"base": ""}, "at base"),
        ({"dataset": {"path": "a", "digest": "x", "upto": 1}}, "at dataset.digest"),
        ({"config": {"algorithm": "ppo"}}, "at config"),
        ({"config": 7}, "at config"),
        ({"config": {**WHOLE["config"], "learning_rate": "fast"}}, "not a decimal number at config.sft.learning_rate"),
        ({"config": {**WHOLE["config"], "learning_rate": "-1"}}, "finite number of at least 0"),
        ({"config": {**WHOLE["config"], "steps": 0}}, "at config.sft.steps"),
        ({"config": {**WHOLE["config"], "epochs": 2}}, "at config.sft.epochs"),
    ],
)
def test_a_request_that_cannot_be_read_says_where(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(WHOLE | changes))
    with pytest.raises(RequestUnreadable, match=said):
        read_request(file)


def test_a_request_that_is_no_file_or_no_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestUnreadable, match="No such file"):
        read_request(tmp_path / "nowhere.json")
    (tmp_path / "half.json").write_text("{")
    with pytest.raises(RequestUnreadable, match="Invalid JSON"):
        read_request(tmp_path / "half.json")
