"""The file of a frozen dataset, read by all who train on it: datasets, polars, our stages, and TRL as it comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from api.datasets import freeze as frozen
from api.house import House
from api.queries.datasets import find_dataset
from eventlog.events import DpoQuery, GrpoQuery, Query, SftQuery
from eventlog.weights_folder import Base
from projections.datasets.row_columns import TRAINED, Kind
from tests.tiny import Row, make_base, sampled
from tests.unit.test_policy_samples import PolicyCall, PolicyRun, play
from trainer.bases import load_model, load_tokenizer
from trainer.request import Config, DatasetRef, DpoConfig, GrpoConfig, SftConfig, TrainingRequest
from trainer.stage import run_stage
from trainer.start import Line

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what training needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:You are using 'rollout_func':UserWarning"),
]

GROUPS = (4, 4)
QUERIES: dict[Kind, Query] = {
    "sft": SftQuery(runs="policy"),
    "dpo": DpoQuery(),
    "grpo": GrpoQuery(reward="score", ddof=0, eps="0.000001"),
}
NUMBERS: dict[str, Any] = {"steps": 1, "learning_rate": "0.01"}
CONFIGS: dict[str, Config] = {
    "sft": SftConfig(**NUMBERS, rows_per_step=2),
    "dpo": DpoConfig(**NUMBERS, pairs_per_step=2),
    "grpo": GrpoConfig(**NUMBERS, groups_per_step=2),
    "grpo-trl": GrpoConfig(**NUMBERS, groups_per_step=2, backend="trl"),
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("bases"))


@pytest.fixture(scope="module")
def drawn(base: Base) -> list[dict[str, Any]]:
    return sampled(base, GROUPS)


@pytest.fixture
def house(empty_house: House, base: Base, drawn: Sequence[Row]) -> House:
    """A house on a log in which the base drew these rows: two calls to a run, with an observation between."""
    for number, row in enumerate(drawn):
        play(empty_house.store, empty_house.blobs, run_of(row, base, number % GROUPS[0]))
    return empty_house


def run_of(row: Row, base: Base, index: int) -> PolicyRun:
    prompt, ids, logprobs = row["prompt_ids"], row["completion_ids"], row["logprobs"]
    first = PolicyCall(prompt, ids[:2], logprobs[:2], tokenizer=base.tokenizer, template=base.chat_template)
    said = ("the task", "an answer", "a page")
    then = replace(
        first, prompt=[*prompt, *ids[:4]], ids=ids[4:], logprobs=logprobs[4:], text=f"no. {index}", said=said
    )
    reward = row["reward"]
    return PolicyRun(row["run"], reward, row["group"], index, (first, then), value=reward, shaped=reward)


def written(house: House, kind: Kind, folder: Path) -> DatasetRef:
    """The rows of a frozen dataset as a file."""
    file = folder / f"{kind}.parquet"
    made = frozen.write_dataset(house.store, house.blobs, house.views(), QUERIES[kind], file)
    digest = frozen.freeze_dataset(house.store, made, "test")
    assert find_dataset(house.views(), digest).rows == made.height > 0
    return DatasetRef(path=str(file), digest=made.digest, upto=made.upto)


def loaded(file: str, folder: Path) -> Any:
    import datasets

    return datasets.load_dataset("parquet", data_files=file, split="train", cache_dir=str(folder / "cache"))


@pytest.mark.parametrize("kind", ["sft", "dpo", "grpo"])
def test_datasets_and_polars_read_the_same_rows(house: House, tmp_path: Path, kind: Kind) -> None:
    file = written(house, kind, tmp_path).path
    rows = loaded(file, tmp_path).to_list()
    assert rows == pl.read_parquet(file).to_dicts()
    assert TRAINED[kind].keys() <= rows[0].keys()


def test_what_was_drawn_is_what_is_trained_on(house: House, drawn: Sequence[Row], tmp_path: Path) -> None:
    found = {row["run"]: row for row in pl.read_parquet(written(house, "grpo", tmp_path).path).to_dicts()}
    assert found.keys() == {row["run"] for row in drawn}
    for row in drawn:
        same = [name for name in TRAINED["grpo"] if name not in {"position", "advantage"}]
        assert {name: found[row["run"]][name] for name in same} == {name: row[name] for name in same}
        assert found[row["run"]]["advantage"] == pytest.approx(row["advantage"], abs=1e-8)


@pytest.mark.parametrize("stage", CONFIGS)
def test_every_stage_trains_on_it_and_its_checkpoint_names_it(
    house: House, base: Base, tmp_path: Path, stage: str
) -> None:
    config, lines = CONFIGS[stage], list[Line]()
    dataset = written(house, config.algorithm, tmp_path)
    asked = TrainingRequest(dataset=dataset, base=str(base.path), out=str(tmp_path / "checkpoints"), config=config)
    saved = run_stage(asked, lines.append)
    assert saved is not None
    assert (saved.manifest.dataset, saved.manifest.upto) == (dataset.digest, dataset.upto)
    assert [line["step"] for line in lines if line["kind"] == "step"] == [1]


def told(folder: Path) -> dict[str, Any]:
    """One step of TRL on the CPU that keeps nothing."""
    where = {"output_dir": str(folder / "out"), "use_cpu": True, "bf16": False, "dataloader_pin_memory": False}
    quiet = {"report_to": [], "save_strategy": "no", "disable_tqdm": True}
    return {**where, **quiet, "gradient_checkpointing": False, "max_steps": 1, "per_device_train_batch_size": 2}


@pytest.mark.parametrize("kind", ["sft", "dpo"])
def test_trl_as_it_comes_takes_the_columns_of_text(house: House, base: Base, tmp_path: Path, kind: Kind) -> None:
    import trl

    arguments, trainer = {"sft": (trl.SFTConfig, trl.SFTTrainer), "dpo": (trl.DPOConfig, trl.DPOTrainer)}[kind]
    run = trainer(
        model=load_model(base, None),
        args=arguments(**told(tmp_path)),
        train_dataset=loaded(written(house, kind, tmp_path).path, tmp_path),
        processing_class=load_tokenizer(base),
    )
    assert run.train().training_loss > 0


def test_trl_as_it_comes_answers_the_prompts_of_groups(house: House, base: Base, tmp_path: Path) -> None:
    import trl

    asked: list[Any] = []

    def reward(prompts: list[Any], completions: list[Any], **_: Any) -> list[float]:
        asked.extend(prompts)
        return [float(len(completion[-1]["content"])) for completion in completions]

    rows = loaded(written(house, "grpo", tmp_path).path, tmp_path)
    run = trl.GRPOTrainer(
        model=load_model(base, None),
        reward_funcs=reward,
        args=trl.GRPOConfig(**told(tmp_path), num_generations=2, max_completion_length=4),
        train_dataset=rows,
        processing_class=load_tokenizer(base),
    )
    run.train()
    assert run.state.global_step == 1
    assert len(asked) == 2
    assert all(prompt in rows["prompt"] for prompt in asked)
