"""`make demo-arms`: SmolLM2 on one task as it is, trained on demonstrations, told what memory holds, and both."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import torch
import typer

from agents.learning.memory import build_memory_artifact, forget_everything
from agents.models.local.network import PREFIX
from api.cli.output import TerminalReporter
from api.course import BASE as UNTRAINED
from api.sweeps.executors import Way, executor_of
from api.training.bases import add_base, find_source
from api.training.weights import base_of, folders_of
from benchmarks.demo_sites import interval
from benchmarks.report import Target, at_least, report
from eventlog.events import Artifact

from .effort import BASE, TASK, Effort, on_processors, quick
from .judged import Judged, freeze_sealed, judge, lines_told
from .stage import Scene, demonstrate, learn_in_words, open_scene, train

PAGE: Final = Path(__file__).parents[2] / "docs" / "benchmarks" / "arms.md"
FOLDER: Final = Path(".flywheel/demo-arms")
AIM: Final = 0.9


def main(
    *,
    small: Annotated[bool, typer.Option("--quick", help="Try every part at a size that teaches nothing.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Also write the figures into the page.")] = False,
    folder: Annotated[Path, typer.Option(help="Folder of the log, the base and the checkpoint.")] = FOLDER,
) -> None:
    """Train a real model on demonstrations, let memory tell it the rest, and judge each arm by the gate.

    A call goes on from the last one.
    """
    if write and small:
        raise typer.BadParameter("--write needs a full run: omit --quick")
    began, has_device = time.monotonic(), torch.cuda.is_available()
    effort = quick() if small else Effort() if has_device else on_processors()
    place = (folder / "quick" if small else folder).resolve()
    place.mkdir(parents=True, exist_ok=True)
    with open_scene(place, effort, TerminalReporter()) as scene:
        note, arms, more = _arms(scene, began)
    _report(note, arms, more | {"minutes of the last call": (time.monotonic() - began) / 60}, write=write)


def _arms(scene: Scene, began: float) -> tuple[str, dict[str, Sequence[bool]], dict[str, float]]:
    """The page's note, the sealed seeds passed by arm, and other figures."""
    house, say = scene.house, scene.reporter.say
    base = base_of(house, add_base(house, find_source(BASE, None, None)).base, None)
    demonstrate(scene)
    trained, rows = train(scene, base)
    say(f"after {time.monotonic() - began:.0f} s: the weights are trained")
    model = f"{PREFIX}{base.path}"
    with executor_of(Way.POLICY, house.settings, model=model, folder_of=folders_of(house)) as executor:
        learned = learn_in_words(scene, executor, trained.checkpoint)
        memory, blob = build_memory_artifact(house.views(), UNTRAINED)
        told = lines_told(scene, executor, memory, blob)
        say(f"after {time.monotonic() - began:.0f} s: in words {', '.join(learned) or 'nothing'}; told: {told}")
        frozen = freeze_sealed(scene)
        bare, nothing = forget_everything(trained.checkpoint)
        both = Artifact(weights=trained.checkpoint, memory=memory.memory)
        found: dict[str, Judged] = {}
        for name, (artifact, content) in {
            "memory": (memory, blob),
            "weights": (bare, nothing),
            "both": (both, blob),
        }.items():
            found[name] = judge(scene, frozen, executor, artifact, content)
            say(f"after {time.monotonic() - began:.0f} s: {name}")
    arms = {"base": found["memory"].champion, **{name: each.challenger for name, each in found.items()}}
    more = {f"{name}, promoted by the gate": float(each.decision == "promote") for name, each in found.items()}
    more |= {"lines told": float(len(told)), "runs that are missing": float(sum(e.missing for e in found.values()))}
    return _note(scene, rows, told), {name: tuple(seeds.values()) for name, seeds in arms.items()}, more


def _note(scene: Scene, rows: int, told: Sequence[str]) -> str:
    """What the arms were made with."""
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    effort = scene.effort
    lines = "; ".join(f"“{line}”" for line in told) or "nothing"
    return (
        f"{where}, torch {torch.__version__}; `{TASK}`; {rows} demonstrations that passed, of {effort.plain} seeds "
        f"without memory and {effort.told} told; {effort.sft.steps} steps of {effort.sft.rows_per_step} rows; memory "
        f"told {lines}; {effort.sealed} sealed seeds."
    )


def _report(note: str, arms: Mapping[str, Sequence[bool]], more: Mapping[str, float], *, write: bool) -> None:
    figures = {f"{arm}, sealed seeds passed": sum(seeds) / max(1, len(seeds)) for arm, seeds in arms.items()}
    spans = {f"{arm}, sealed seeds passed": interval(sum(seeds), max(1, len(seeds))) for arm, seeds in arms.items()}
    targets: dict[str, float | Target] = {
        "both, sealed seeds passed": at_least(AIM),
        "both, promoted by the gate": at_least(1),
    }
    report("demo-arms", figures | dict(more), targets, intervals=spans, page=PAGE if write else None, note=note)


if __name__ == "__main__":
    typer.run(main)
