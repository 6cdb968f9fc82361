"""Common settings of all TRL trainers, and conversion of their metrics to our progress lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .request import Config
from .sharding import gather_trained, sharded_trainer
from .shares import share_out
from .start import Emit, StageStart, step_line

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import Trainer

Measures = Callable[[Mapping[str, float]], Mapping[str, float | None]]
"""Selects our metrics from TRL's log of a step, under our names."""


def settings(
    start: StageStart, config: Config, folder: str, size: int, rows_per_pass: int | None = None
) -> dict[str, Any]:
    """Arguments for every trainer. All are explicit, because several of TRL's defaults are unsuitable.

    A step has `size` rows, divided among the processes, which go through the model in equal passes of `rows_per_pass`
    rows (None: all at once). TRL requires `folder` as an output folder but saves nothing.
    """
    own = max(1, size // start.device.processes)
    rows = own if rows_per_pass is None else rows_per_pass
    return {
        "output_dir": folder,
        "use_cpu": not start.device.is_cuda,
        "bf16": start.device.is_cuda,
        "gradient_checkpointing": config.checkpointing,
        "gradient_checkpointing_kwargs": {"use_reentrant": False} if config.checkpointing else None,
        "seed": config.seed,
        "data_seed": config.seed,
        "per_device_train_batch_size": rows,
        "gradient_accumulation_steps": max(1, own // rows),
        "max_steps": config.steps,
        "learning_rate": float(config.learning_rate),
        "lr_scheduler_type": "constant",
        "weight_decay": 0.0,
        "max_grad_norm": 1.0,
        "dataloader_num_workers": 0,
        "ddp_find_unused_parameters": False,
        "remove_unused_columns": False,
        "report_to": [],
        "save_strategy": "no",
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "disable_tqdm": True,
    }


def sharing_trainer(kind: Any, size: int, start: StageStart) -> Any:
    """Subclass a TRL trainer so that its steps of `size` rows are divided among the processes and their passes."""

    class Sharing(kind):  # type: ignore[misc]
        """Trains on this process's part of each step."""

        def get_train_dataloader(self) -> Any:
            return share_out(super().get_train_dataloader(), size, start.device, start.rows_per_pass)

    return Sharing


def kind_for(kind: Any, config: Config, start: StageStart) -> Any:
    """A TRL trainer; if the configuration says so, one whose processes each hold a part of the weights."""
    return sharded_trainer(kind, start.device) if config.sharded else kind


def on_one_device(arguments: Any) -> Any:
    """Restrict the arguments to one device per process; by default one process would use them all."""
    arguments._n_gpu = min(arguments.n_gpu, 1)
    return arguments


def run_trainer(trainer: Trainer, emit: Emit, measures: Measures) -> PeftModel:
    """Train, emitting a line for each step. Raises TrainingDiverged."""
    from transformers import PrinterCallback, TrainerCallback

    class Lines(TrainerCallback):  # type: ignore[misc]
        """Emits the metrics that TRL logs for a step."""

        def on_train_begin(self, *_given: Any, **_named: Any) -> None:
            if (shards := getattr(trainer, "shards", None)) is not None:
                emit(shards)

        def on_log(self, _args: Any, state: Any, _control: Any, logs: Any = None, **_rest: Any) -> None:
            if logs and "loss" in logs:
                emit(step_line(state.global_step, float(logs["loss"]), **measures(logs)))

    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(Lines())
    trainer.train()
    trained: PeftModel = trainer.accelerator.unwrap_model(trainer.model)
    gather_trained(trained)
    return trained
