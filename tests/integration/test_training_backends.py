"""The losses that are trained on, against a recomputation in float64 from the rows and the adapter.

The recomputation shares no code with either: one row at a time, without padding, the formula in plain Python. The model
is built again from disk, because TRL puts a closure over the original into what a deep copy would take along.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from eventlog.weights_folder import Base
from tests.tiny import Row, dpo_rows, make_base, sampled, sft_rows, write_rows
from trainer.adapters import ADAPTER, adapter_tensors, restore_adapter
from trainer.bases import load_model
from trainer.devices import Device
from trainer.dpo import make_dpo_trainer
from trainer.grpo import start_policy
from trainer.grpo_loop import add_gradient
from trainer.grpo_trl import make_grpo_trainer
from trainer.request import DpoConfig, GrpoConfig, Lora, SftConfig
from trainer.rows import read_rows
from trainer.sft import make_sft_trainer
from trainer.start import StageStart, policy_model

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what training needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:You are using 'rollout_func':UserWarning"),
]

LORA = Lora(rank=4, alpha=8)
CONFIG = GrpoConfig(steps=1, learning_rate="0.001", groups_per_step=3, max_tokens=9, rows_per_pass=5)
BATCH = [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)]


@dataclass(frozen=True)
class Case:
    """Rows, and the adapter to take the loss of them at."""

    rows: Sequence[Row]
    adapter: dict[str, Any]
    config: GrpoConfig


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("bases"))


@pytest.fixture(scope="module")
def rows(base: Base) -> list[dict[str, Any]]:
    """Rows whose policy is some way off, so that some of their tokens lie outside the clip."""
    found = sampled(base, [4, 4, 4])
    for number, row in enumerate(found):
        row["logprobs"] = [
            value + 0.3 * ((number + place) % 3 - 1) if said else 0.0
            for place, (value, said) in enumerate(zip(row["logprobs"], row["mask"], strict=True))
        ]
    return found


def start_of(base: Base) -> StageStart:
    import torch

    return StageStart(base, Device("cpu", torch.float32), LORA, None, 3, 32)


def moved(base: Base, seed: int) -> dict[str, Any]:
    """An adapter that does something: away from the base, and so from the reference."""
    import torch

    model = restore_adapter(load_model(base, torch.float32), LORA, started_tensors(base), Path("fresh"))
    generator = torch.Generator().manual_seed(seed)
    return {
        name: tensor + (torch.randn(tensor.shape, generator=generator) * 0.1 if ".lora_B" in name else 0)
        for name, tensor in adapter_tensors(model).items()
    }


def started_tensors(base: Base) -> dict[str, Any]:
    return adapter_tensors(policy_model(start_of(base)))


def put(model: Any, adapter: dict[str, Any]) -> None:
    from peft import set_peft_model_state_dict

    set_peft_model_state_dict(model, adapter, adapter_name=ADAPTER)


def own_loss(folder: Path, base: Base, case: Case) -> float:
    rows = read_rows(write_rows(folder / "rows.parquet", "grpo", case.rows), "grpo")
    policy = start_policy(start_of(base), rows)
    everything = [row for group in BATCH for row in group]
    reference = policy.score(rows.frame, everything, 5)
    put(policy.model, case.adapter)
    return add_gradient(policy, rows.frame, everything, reference, case.config, 32)["loss"]


def trl_loss(folder: Path, base: Base, case: Case) -> float:
    rows = read_rows(write_rows(folder / "rows.parquet", "grpo", case.rows), "grpo")
    policy = start_policy(start_of(base), rows)
    reference = policy.score(rows.frame, [row for group in BATCH for row in group], 5)
    trainer: Any = make_grpo_trainer(policy.model, start_of(base), rows, [BATCH], reference, case.config, str(folder))
    put(trainer.model, case.adapter)
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    inputs = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    return float(trainer.compute_loss(trainer.model, inputs).detach())


def in_float64(base: Base, adapter: dict[str, Any]) -> Any:
    """The base from disk with an adapter, in float64."""
    import torch

    return restore_adapter(load_model(base, torch.float64), LORA, adapter, Path("disk")).double().eval()


def recomputed(base: Base, case: Case) -> tuple[float, float, float]:
    """The loss, the mean KL and the share of tokens outside the clip, in float64."""
    model = in_float64(base, case.adapter)
    epsilon, beta = float(case.config.epsilon), float(case.config.beta)
    sums, sizes, kls, outside = [], [], [], 0
    for row in case.rows:
        theta = _logprobs(model, row)
        with model.disable_adapter():
            reference = _logprobs(model, row)
        gains = []
        for now, held, logged, said in zip(theta, reference, row["logprobs"], row["mask"], strict=True):
            if not said:
                continue
            rho = math.exp(now - logged)
            kl = math.exp(held - now) - (held - now) - 1
            inside = min(max(rho, 1 - epsilon), 1 + epsilon)
            gains.append(min(rho * row["advantage"], inside * row["advantage"]) - beta * kl)
            kls.append(kl)
            outside += inside != rho
        sums.append(sum(gains))
        sizes.append(len(gains))
    match case.config.aggregation:
        case "grpo":
            gain = sum(total / size for total, size in zip(sums, sizes, strict=True)) / len(sums)
        case "bnpo":
            gain = sum(sums) / sum(sizes)
        case "dr_grpo":
            gain = sum(sums) / (len(sums) * case.config.max_tokens)
    return -gain, sum(kls) / len(kls), outside / len(kls)


def _logprobs(model: Any, row: Row) -> list[float]:
    import torch

    ids = torch.tensor([[*row["prompt_ids"], *row["completion_ids"]]])
    before = len(row["prompt_ids"])
    with torch.no_grad():
        known = torch.log_softmax(model(input_ids=ids).logits[0, before - 1 : -1], -1)
    return [float(value) for value in known.gather(1, ids[0, before:, None])[:, 0]]


LOSSES = pytest.mark.parametrize("loss_of", [own_loss, trl_loss], ids=["own", "trl"])


@LOSSES
@pytest.mark.parametrize("aggregation", ["grpo", "bnpo", "dr_grpo"])
def test_the_loss_is_that_of_the_log(
    tmp_path: Path, base: Base, rows: list[dict[str, Any]], loss_of: Any, aggregation: Any
) -> None:
    case = Case(rows, moved(base, 1), CONFIG.model_copy(update={"aggregation": aggregation}))
    loss, kl, outside = recomputed(base, case)
    assert kl > 1e-3
    assert outside > 0.05
    assert any(0 in row["mask"] for row in rows)
    assert loss_of(tmp_path, base, case) == pytest.approx(loss, abs=1e-6)


@LOSSES
@pytest.mark.parametrize("moving", ["adapter", "logged", "kl"])
def test_nothing_is_silently_ignored(
    tmp_path: Path, base: Base, rows: list[dict[str, Any]], loss_of: Any, moving: str
) -> None:
    case = Case(rows, moved(base, 1), CONFIG)
    before, _, _ = recomputed(base, case)
    match moving:
        case "adapter":
            case = Case(rows, moved(base, 2), CONFIG)
        case "logged":
            case = Case([_less_sure(row) for row in rows], case.adapter, CONFIG)
        case "kl":
            case = Case(rows, case.adapter, CONFIG.model_copy(update={"beta": "0.8"}))
    after, _, _ = recomputed(base, case)
    assert abs(after - before) > 1e-4
    assert loss_of(tmp_path, base, case) == pytest.approx(after, abs=1e-6)


def test_sft_learns_the_tokens_of_the_model_alone(tmp_path: Path, base: Base, rows: list[dict[str, Any]]) -> None:
    config = SftConfig(steps=1, learning_rate="0.001", rows_per_step=len(rows))
    taken = read_rows(write_rows(tmp_path / "rows.parquet", "sft", sft_rows(rows)), "sft")
    adapter = moved(base, 1)
    trainer: Any = make_sft_trainer(start_of(base), taken, config, str(tmp_path))
    put(trainer.model, adapter)
    batch = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    model = in_float64(base, adapter)
    said = [value for row in rows for value, mask in zip(_logprobs(model, row), row["mask"], strict=True) if mask]
    assert float(trainer.compute_loss(trainer.model, batch).detach()) == pytest.approx(-sum(said) / len(said), abs=1e-6)


def test_dpo_weighs_the_tokens_of_the_model_alone(tmp_path: Path, base: Base, rows: list[dict[str, Any]]) -> None:
    pairs = dpo_rows(rows)
    config = DpoConfig(steps=1, learning_rate="0.001", pairs_per_step=len(pairs), beta="0.3")
    taken = read_rows(write_rows(tmp_path / "rows.parquet", "dpo", pairs), "dpo")
    adapter = moved(base, 1)
    trainer: Any = make_dpo_trainer(start_of(base), taken, config, str(tmp_path))
    put(trainer.model, adapter)
    trainer.model.train()
    batch = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    model = in_float64(base, adapter)
    by_run = {row["run"]: _gained(model, row) for row in rows}
    margins = [0.3 * (by_run[pair["chosen_run"]] - by_run[pair["rejected_run"]]) for pair in pairs]
    wanted = sum(math.log1p(math.exp(-margin)) for margin in margins) / len(margins)
    assert abs(wanted - math.log(2)) > 1e-3
    assert float(trainer.compute_loss(trainer.model, batch).detach()) == pytest.approx(wanted, abs=1e-6)


def _gained(model: Any, row: Row) -> float:
    """How much likelier the model's tokens of a row are than under the reference, in log-probability."""
    now = _logprobs(model, row)
    with model.disable_adapter():
        held = _logprobs(model, row)
    return math.fsum((after - before) * mask for after, before, mask in zip(now, held, row["mask"], strict=True))


def _less_sure(row: Row) -> Row:
    shifted = [value - 0.1 * said for value, said in zip(row["logprobs"], row["mask"], strict=True)]
    return {**row, "logprobs": shifted}
