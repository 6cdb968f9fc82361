"""One training run: takes a request, emits progress lines, writes a checkpoint. Uses no database and no clock.

The request is fully checked before the first step. Files get their final name only when complete: a killed run starts
over from the beginning and gives the same checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eventlog.errors import BaseDiffers
from eventlog.weights_folder import Base, read_base

from .adapters import adapter_tensors, description_bytes, shape, targets
from .bases import check_rows
from .checkpoint import Checkpoint, CheckpointManifest, load_checkpoint, write_adapter, write_manifest
from .curves import draw_curves
from .devices import Rank, part, prepare_device, runtime
from .dpo import train_dpo
from .grpo import train_grpo
from .memory import plan_stage
from .request import Config, DpoConfig, GrpoConfig, TrainingRequest
from .rows import TrainingRows, read_rows
from .sft import train_sft
from .shares import refuse_unshared
from .start import Emit, Line, StageStart

_STAGES: dict[str, Callable[[StageStart, TrainingRows, Any, Emit], Any]] = {
    "sft": train_sft,
    "dpo": train_dpo,
    "grpo": train_grpo,
}

LINES = "lines.jsonl"
CURVES = "curves.png"


def run_stage(request: TrainingRequest, emit: Emit, rank: Rank | None = None) -> Checkpoint | None:
    """Run the requested stage; with a `rank`, as one of several processes. Only the main process returns a checkpoint.

    Raises any error of trainer/errors.py, all but TrainingDiverged before the first step.
    """
    config = request.config
    rows = read_rows(Path(request.dataset.path), config.algorithm)
    base = read_base(Path(request.base), request.base_digest)
    check_rows(rows, base)
    refuse_unshared(config, len(rows.frame), 1 if rank is None else rank.of)
    parent = _parent(request, base)
    lora = shape(config.lora, parent.manifest.lora if parent else None)
    device = prepare_device(config.device, config.threads, config.seed, rank)
    plan = plan_stage(config, base, device, rows.frame)
    start = StageStart(base, device, lora, parent, config.seed, plan.rows)
    lines: list[Line] = []

    def say(line: Line) -> None:
        lines.append(line)
        if device.is_main:
            emit(line)

    say({"kind": "started", "algorithm": config.algorithm, "rows": len(rows.frame), "steps": config.steps})
    if device.is_main:
        emit(plan.line())  # not kept with the checkpoint, because free memory differs each time
    model = _STAGES[config.algorithm](start, rows, config, say)
    saved = _save(request, start, rows, model, lines) if device.is_main else None
    part()
    return saved


def _passes(config: Config, start: StageStart, rows: int) -> dict[str, str]:
    """Rows a pass, where memory allows fewer than the configuration: passes change how sums are rounded."""
    if isinstance(config, GrpoConfig):
        whole = min(config.rows_per_pass, rows)
    else:
        step = config.pairs_per_step if isinstance(config, DpoConfig) else config.rows_per_step
        whole = min(step, rows) // start.device.processes if config.rows_per_pass is None else 1
    return {} if start.rows_per_pass >= whole else {"rows_per_pass": str(start.rows_per_pass)}


def _parent(request: TrainingRequest, base: Base) -> Checkpoint | None:
    """Load the parent checkpoint. Raises CheckpointMissing, CheckpointUnreadable, CheckpointAltered, BaseDiffers."""
    if request.parent is None:
        return None
    parent = load_checkpoint(Path(request.parent.path), request.parent.digest)
    if parent.manifest.base != base.digest:
        raise BaseDiffers(path=base.path, actual=base.digest, expected=parent.manifest.base)
    return parent


def _save(request: TrainingRequest, start: StageStart, rows: TrainingRows, model: Any, lines: list[Line]) -> Checkpoint:
    """Write the checkpoint to a temporary folder and move it into place atomically. An existing checkpoint is kept."""
    out = Path(request.out)
    making = out / f".making-{hashlib.sha256(request.model_dump_json().encode()).hexdigest()[:16]}"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    files = write_adapter(making, adapter_tensors(model), description_bytes(model, start.base.digest))
    manifest = CheckpointManifest(
        base=start.base.digest,
        parent=start.parent.digest if start.parent else None,
        dataset=request.dataset.digest,
        upto=request.dataset.upto,
        rows=rows.digest,
        tokenizer=start.base.tokenizer,
        chat_template=start.base.chat_template,
        lora=start.lora,
        targets=targets(model),
        config=request.config,
        runtime=runtime(start.device) | _passes(request.config, start, len(rows.frame)),
        files=files,
    )
    digest = write_manifest(making, manifest)
    (making / LINES).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    draw_curves(lines, making / CURVES, f"{request.config.algorithm} {digest[:12]}")
    place = out / digest
    if place.exists():
        shutil.rmtree(making)
    else:
        os.replace(making, place)  # noqa: PTH105 atomic
    return load_checkpoint(place, digest)
