from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eventlog.errors import BaseDiffers
from eventlog.weights_folder import Base, read_base
from tests.tiny import DIGEST, TEXTS, Row, make_base, sampled, sft_rows, write_rows
from trainer.bases import load_model, load_tokenizer
from trainer.errors import DatasetEmpty, IdOutsideVocabulary
from trainer.request import DatasetRef, WarmupConfig, WarmupRequest
from trainer.start import Line
from trainer.tiny import Shape, make_tiny, shape_of
from trainer.warmup import SOURCE, warm_up

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what training needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def test_the_same_texts_shape_and_seed_make_the_same_folder(tmp_path: Path) -> None:
    first, again = make_base(tmp_path / "a"), make_base(tmp_path / "b")
    assert first.digest == again.digest == first.path.name
    assert make_base(tmp_path / "a") == first
    assert folders(tmp_path / "a") == [first.path]
    others = {make_base(tmp_path / "a", seed=2).digest, make_base(tmp_path / "a", "llama").digest}
    assert len(others | {first.digest}) == 3
    assert read_base(first.path, first.digest) == first


def folders(folder: Path) -> list[Path]:
    return [each for each in folder.iterdir() if each.is_dir()]


MAKES = """
import sys
from pathlib import Path
from trainer.tiny import Shape, make_tiny

def texts():
    print("at it", flush=True)
    yield sys.stdin.read()

make_tiny(Path(sys.argv[1]), texts(), Shape(), 1)
"""


def test_what_one_that_was_killed_left_is_removed_by_the_next_that_makes_there(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAKES, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"at it\n"
        process.kill()
    (left,) = folders(tmp_path)
    made = make_base(tmp_path)
    assert left != made.path
    assert folders(tmp_path) == [made.path]


def configuration_of(base: Base) -> Any:
    return json.loads((base.path / "config.json").read_bytes())


@pytest.mark.parametrize(
    "shape",
    [
        Shape("llama", vocabulary=290, hidden=32, layers=1, heads=4, key_heads=1, inner=48, longest=64),
        Shape("qwen2", vocabulary=5_000, hidden=32, layers=2, heads=2, key_heads=2, inner=40, longest=96),
        Shape("qwen3", vocabulary=290, hidden=48, layers=1, heads=2, key_heads=1, inner=48, longest=64),
        Shape("qwen3_moe", vocabulary=290, hidden=32, layers=1, heads=2, key_heads=1, inner=16, longest=64, experts=3),
    ],
    ids=lambda shape: shape.architecture,
)
def test_the_shape_that_a_configuration_says_makes_the_same_folder(shape: Shape, tmp_path: Path) -> None:
    made = make_tiny(tmp_path / "a", TEXTS, shape, 1)
    found = shape_of(configuration_of(made))
    assert found == replace(shape, vocabulary=made.vocabulary)
    assert (made.vocabulary < shape.vocabulary) == (shape.vocabulary == 5_000)
    assert make_tiny(tmp_path / "b", TEXTS, found, 1, made.digest).digest == made.digest


def test_what_is_not_the_expected_folder_is_not_put_there(tmp_path: Path) -> None:
    with pytest.raises(BaseDiffers, match=f"expected {DIGEST}"):
        make_tiny(tmp_path, TEXTS, Shape(hidden=32, layers=1, heads=2, inner=48), 1, DIGEST)
    assert folders(tmp_path) == []


@pytest.mark.parametrize("change", [{"model_type": "mamba"}, {"hidden_size": None}, {"vocab_size": "many"}])
def test_a_configuration_of_another_kind_of_model_has_no_shape(change: dict[str, object], tmp_path: Path) -> None:
    assert shape_of({**configuration_of(make_base(tmp_path)), **change}) is None


def test_any_text_can_be_written_and_read_again(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(make_base(tmp_path))
    for text in ("price: 7 €", "  a\n\n\tb", "日本語 🙂", "\x00 control"):
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text
    assert len(tokenizer.encode(TEXTS[3])) < len(TEXTS[3].encode()) / 2


def test_a_turn_of_the_assistant_ends_with_its_end_token(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(make_base(tmp_path))
    messages = [{"role": "user", "content": "open /boats/1"}, {"role": "assistant", "content": "done"}]
    told = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
    said = [token for token, mask in zip(told["input_ids"], told["assistant_masks"], strict=True) if mask]
    assert tokenizer.decode(said) == "done<|im_end|>"
    assert said[-1] == tokenizer.eos_token_id
    asked = tokenizer.apply_chat_template(messages[:1], tokenize=True, return_dict=False, add_generation_prompt=True)
    assert told["input_ids"][: len(asked)] == asked


def test_by_default_it_has_about_three_million_parameters(tmp_path: Path) -> None:
    import torch

    model = load_model(make_tiny(tmp_path, TEXTS, Shape(), 1), torch.float32)
    assert 2_500_000 < sum(weight.numel() for weight in model.parameters()) < 3_500_000


def warming(folder: Path, base: Base, rows: Sequence[Row]) -> WarmupRequest:
    folder.mkdir(parents=True)
    return WarmupRequest(
        dataset=DatasetRef(path=str(write_rows(folder / "rows.parquet", "sft", rows)), digest=DIGEST, upto=99),
        base=str(base.path),
        out=str(folder / "bases"),
        config=WarmupConfig(steps=30, learning_rate="0.005", rows_per_step=4),
    )


def test_a_warmed_up_base_knows_what_it_was_shown_and_is_the_same_each_time(tmp_path: Path) -> None:
    base = make_base(tmp_path / "cold")
    rows = sft_rows(sampled(base, [2, 2]))
    lines: list[Line] = []
    warm = warm_up(warming(tmp_path / "a", base, rows), lines.append)
    losses = [float(str(line["loss"])) for line in lines if line["kind"] == "step"]
    assert losses[0] > 5
    assert losses[-1] < 1
    assert (warm.tokenizer, warm.chat_template) == (base.tokenizer, base.chat_template)
    assert warm.digest != base.digest
    source = json.loads((warm.path / SOURCE).read_bytes())
    assert (source["base"], source["dataset"], source["upto"]) == (base.digest, DIGEST, 99)
    assert warm_up(warming(tmp_path / "b", base, rows), lambda _line: None).digest == warm.digest
    assert list((tmp_path / "a" / "bases").iterdir()) == [warm.path]


def test_a_warm_up_refuses_what_does_not_fit_and_writes_nothing(tmp_path: Path) -> None:
    base = make_base(tmp_path / "cold")
    row = sft_rows(sampled(base, [2]))[0]
    with pytest.raises(DatasetEmpty):
        warm_up(warming(tmp_path / "a", base, []), lambda _line: None)
    with pytest.raises(IdOutsideVocabulary):
        warm_up(warming(tmp_path / "b", base, [{**row, "prompt_ids": [99999]}]), lambda _line: None)
    assert not (tmp_path / "a" / "bases").exists()
    assert not (tmp_path / "b" / "bases").exists()
