"""Sizes, tasks and seeds of the slow-loop demonstration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from api.cli.run_slow import DPO, GRPO, SFT
from benchmarks.shipped import PLANS, template
from eventlog.events import Step, Template
from trainer.request import DpoConfig, GrpoConfig, SftConfig
from trainer.tiny import Shape

PHONE: Final = "marketplace.phone_reveal"
TRIAGE: Final = "helpdesk.triage_inbox"
TASKS: Final = {"marketplace": PHONE, "helpdesk": TRIAGE}
"""One task per site. Its plan starts at an address that exists in a quarter or a third of the instances."""

LINKS: Final = {PHONE: "Boats for sale", TRIAGE: "Inbox"}
"""Label of the link on the first page that leads to a task's start page; it exists in every instance."""

MICRO: Final = 1_000_000


def by_address(site: str, instruction: str) -> Template:
    """A site's task with a plan that starts at the address in the task's instruction."""
    return template(TASKS[site], instruction)


def by_link(site: str, instruction: str) -> Template:
    """A site's task with a plan that starts on the first page and follows the link."""
    task = TASKS[site]
    link = LINKS[task]
    begin = (
        Step(type="navigate", intent="start on the first page", url="/"),
        Step(type="click", intent=f"go to {link}", label=link),
    )
    return by_address(site, instruction).model_copy(update={"plan_steps": (*begin, *PLANS[task][1:])})


@dataclass(frozen=True, slots=True)
class Seeds:
    """Disjoint sets of instances of each site, by purpose.

    Sizes and rates were tuned on other instances, so held-out and sealed instances were not used for tuning.
    """

    by_address: tuple[int, ...] = tuple(range(200))
    by_link: tuple[int, ...] = tuple(range(200, 240))
    measured: tuple[int, ...] = tuple(range(300, 330))
    training: tuple[int, ...] = tuple(range(400, 440))
    training_again: tuple[int, ...] = tuple(range(500, 512))
    held_out: tuple[int, ...] = tuple(range(30_000, 30_024))
    sealed: tuple[int, ...] = tuple(range(40_000, 40_050))


@dataclass(frozen=True, slots=True)
class Effort:
    """Sizes of the demonstration. `at_once` runs and `processes` trainings run in parallel.

    The stages are those of `flywheel run --loop slow`; `dpo_in_loop` adds DPO between SFT and GRPO.

    The warm-up trains `first_steps`, then adds `warm_steps` at most `most_warm_ups` times, until the measured success
    reaches the lower end of `band`. The policy nearest to the band is used.
    """

    seeds: Seeds = field(default_factory=Seeds)
    siblings: int = 6
    training_seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    shape: Shape = field(
        default_factory=lambda: Shape("llama", vocabulary=640, hidden=128, layers=3, inner=384, longest=1536)
    )
    first_steps: int = 130
    first_rate: str = "0.003"
    warm_steps: int = 20
    warm_rate: str = "0.001"
    warm_rows: int = 3
    most_warm_ups: int = 8
    band: tuple[float, float] = (0.35, 0.5)
    at_once: int = 32
    processes: int = 2
    max_tokens: int = 64
    sft: SftConfig = SFT
    dpo: DpoConfig = DPO
    grpo: GrpoConfig = GRPO
    dpo_in_loop: bool = False


def quick() -> Effort:
    """A small trial: two training seeds and a third of the instances."""
    few = Seeds(
        by_address=tuple(range(80)),
        by_link=tuple(range(200, 216)),
        measured=tuple(range(300, 312)),
        training=tuple(range(400, 412)),
        training_again=tuple(range(500, 508)),
        held_out=tuple(range(20_000, 20_010)),
        sealed=tuple(range(10_000, 10_040)),
    )
    return Effort(seeds=few, training_seeds=(1, 2))
