"""`make bench-serving`: parity of llama.cpp with Transformers on two models, and flips of the champion."""

from __future__ import annotations

import platform
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from transformers.utils.logging import disable_progress_bar

from agents.models.llamacpp.library import load_library
from api.training.bases import find_source
from benchmarks.report import Target, at_least, at_most, report
from eventlog.weights_folder import Base
from tests.tiny import make_base, planted_checkpoint
from trainer.gguf_base import base_from_gguf

from .flips import TARGETS, flip_champion
from .parity import PROMPTS, Form, compare

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "serving.md"
FORMS = (Form("f32"), Form("f32", "f16"), Form("f16"), Form("q8_0", "f16", flash=True))
EXACT, HALF_CACHE = FORMS[:2]
TOKENS = {"tiny": 24, "smollm2": 32}
LARGEST = {"tiny": 1e-5, "smollm2": 1e-4}
LARGEST_OF_HALF_CACHE = 5e-3
MEAN = {"smollm2": 1e-5}
SCALE = {"tiny": 0.1, "smollm2": 0.02}
"""Deviation of the random adapters. At 0.1 SmolLM2 says nothing but noise."""


def main(
    *,
    models: Annotated[Path | None, typer.Option(help="Folder of weights to keep [a temporary one].")] = None,
    only: Annotated[str | None, typer.Option(help="One model: tiny or smollm2 [both].")] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of llama.cpp.")] = 1,
    flips: Annotated[int, typer.Option(min=0, help="Flips of the champion under readers; 0: none.")] = 1000,
    write: Annotated[bool, typer.Option("--write", help="Also write the table into its page.")] = False,
) -> None:
    """Compare llama.cpp with Transformers in float32, and flip the champion under readers."""
    warnings.simplefilter("ignore")  # warnings of libraries; tests check ours
    disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        figures, targets = measure(models or Path(folder), only, threads)
        if flips:
            figures |= flip_champion(models or Path(folder), flips)
            targets |= TARGETS
    library = load_library()
    note = f"{platform.machine()}, {library.package} {version(library.package)}, torch {version('torch')}; "
    note += f"{len(PROMPTS)} prompts each, logprobs of tokens drawn at temperature 1."
    report("serving", figures, targets, page=PAGE if write else None, note=note)


def measure(models: Path, only: str | None, threads: int) -> tuple[dict[str, float], dict[str, Target]]:
    """The figures of every model, arm and form, and the targets of those that have some."""
    figures: dict[str, float] = {}
    targets: dict[str, Target] = {}
    for name in TOKENS if only is None else (only,):
        base = open_base(name, models)
        saved = planted_checkpoint(Path(tempfile.mkdtemp(dir=models)), base, seed=1, scale=SCALE[name])
        for arm, checkpoint in (("base", None), ("base + adapter", saved)):
            for form in FORMS:
                title = f"{name}, {arm}, {form}"
                with Console(stderr=True).status(f"measuring: {title}"):
                    found = compare(base, checkpoint, form, models, TOKENS[name], threads)
                figures |= {
                    f"{title}: greedy answers equal": found.equal,
                    f"{title}: drawn answers whose bytes come again": found.again,
                    f"{title}: of those, answers that end their turn": found.ended,
                    f"{title}: largest distance of a logprob": found.largest,
                    f"{title}: mean distance of a logprob": found.mean,
                }
                targets |= targets_of(name, title, form)
    return figures, targets


def targets_of(name: str, title: str, form: Form) -> dict[str, Target]:
    """The targets of a model in a form. Those of half precision and of quantised weights are only reported."""
    if form == HALF_CACHE:
        return {f"{title}: largest distance of a logprob": at_most(LARGEST_OF_HALF_CACHE)}
    if form != EXACT:
        return {}
    found = {
        f"{title}: greedy answers equal": at_least(len(PROMPTS)),
        f"{title}: drawn answers whose bytes come again": at_least(len(PROMPTS)),
        f"{title}: largest distance of a logprob": at_most(LARGEST[name]),
    }
    if name in MEAN:
        found[f"{title}: mean distance of a logprob"] = at_most(MEAN[name])
    return found


def open_base(name: str, models: Path) -> Base:
    """The tiny Llama of the tests, or SmolLM2 from its package."""
    if name == "tiny":
        return make_base(models, "llama", vocabulary=512, hidden=128, layers=4, inner=256, longest=256)
    return base_from_gguf(find_source(name, None, None).path, models)


if __name__ == "__main__":
    typer.run(main)
