"""The same stages on a CUDA device: bfloat16 weights, float32 adapters, and a log that the CPU sampled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tiny import dpo_rows, make_base, request, sampled, sft_rows
from trainer.checkpoint import load_tensors
from trainer.request import DpoConfig, GrpoConfig, SftConfig
from trainer.stage import run_stage
from trainer.start import Line

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


@pytest.mark.parametrize("stage", ["sft", "dpo", "own", "trl"])
def test_every_stage_runs_on_the_device_and_keeps_its_adapter_in_float32(tmp_path: Path, stage: Any) -> None:
    import torch

    base = make_base(tmp_path / "bases")
    rows = sampled(base, [4, 4])
    numbers: dict[str, Any] = {"steps": 3, "learning_rate": "0.001", "device": "cuda"}
    lines: list[Line] = []
    match stage:
        case "sft":
            asked = request(tmp_path, base, "sft", sft_rows(rows), SftConfig(**numbers))
        case "dpo":
            asked = request(tmp_path, base, "dpo", dpo_rows(rows), DpoConfig(**numbers))
        case _:
            config = GrpoConfig(**numbers, groups_per_step=2, backend=stage, staleness="0.05")
            asked = request(tmp_path, base, "grpo", rows, config)
    saved = run_stage(asked, lines.append)
    assert saved is not None
    assert saved.manifest.runtime["device"] == torch.cuda.get_device_name()
    assert {str(tensor.dtype) for tensor in load_tensors(saved).values()} == {"torch.float32"}
    assert [line["step"] for line in lines if line["kind"] == "step"] == [1, 2, 3]
