"""`make bench-instruction`: the fast loop and the `gepa` library search for the same instruction, with equal budgets.

Each search has a site that its seed draws, with three obstacles, and a scripted reflector that proposes from a fixed
pool of sentences, the same for both. So the searches are compared, and no model. With `--base` a language model in this
process is the reflector of both. What each found is played on sealed seeds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.log.server import Server, own_server
from benchmarks.report import report

from .local import Found, model_name, once, reflector_of
from .ours import search_by_loop
from .peer import ENVIRONMENT, MISSING, library_version, search_by_peer, spent_by
from .suite import Budget, Player, Spent, open_site, sentences_for

PAGE: Final = Path(__file__).parents[2] / "docs" / "benchmarks" / "instruction.md"
LOCAL_PAGE: Final = PAGE.with_stem("instruction-local")
FOLDER: Final = Path(".flywheel/bench-instruction")
FIRST_SEALED: Final = 10_000
SOLVED: Final = 0.95
DRAWS: Final = 10_000
HEADINGS: Final = (
    "budget",
    "search",
    "obstacles",
    "site",
    "before",
    "ours",
    "leading",
    "gepa",
    "ours kept",
    "gepa kept",
    "runs",
    "calls",
    "tokens",
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of searches, of the library's instances, of those that validate, and of sealed seeds.

    Each search is done once by each budget.
    """

    searches: int = 10
    budgets: tuple[Budget, ...] = (Budget("runs", 400), Budget("calls", 3_000), Budget("tokens", 6_500_000))
    instances: int = 60
    val: int = 12
    sealed: int = 40

    def key(self, budget: Budget) -> str:
        """A name for what is found by a budget at these sizes."""
        return f"{budget.of}-{budget.most}-{self.instances}-{self.val}-{READING}"


READING: Final = 2
"""Number of the form in which a reflector reads runs; what was found and kept with another one is not taken."""

QUICK: Final = Sizes(
    2, (Budget("runs", 120), Budget("calls", 800), Budget("tokens", 1_500_000)), instances=30, val=8, sealed=8
)
LOCAL: Final = Sizes(3, (Budget("runs", 200), Budget("calls", 24), Budget("tokens", 25_000)))
"""With a language model, whose calls and tokens alone are counted."""


@dataclass(frozen=True, slots=True)
class Arm:
    """What one way to search found: sealed runs passed, sentences kept, instructions tried, and what it took.

    `leading` are the sealed runs that pass with what does best without proof: `passed` of a search that proves nothing.
    """

    passed: float
    leading: float
    kept: int
    tried: int
    spent: Spent


@dataclass(frozen=True, slots=True)
class Search:
    """One search: its budget, site, sealed success without an instruction, and both arms (no peer if it is missing)."""

    budget: Budget
    seed: int
    obstacles: str
    site: str
    before: float
    ours: Arm
    peer: Arm | None


def main(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Two searches with few runs.")] = False,
    write: Annotated[bool, typer.Option("--write", help=f"Also write docs/benchmarks/{PAGE.name}.")] = False,
    python: Annotated[Path, typer.Option(help="Python of an environment with requirements/gepa.txt.")] = (
        ENVIRONMENT / "bin" / "python"
    ),
    searches: Annotated[int, typer.Option(help="Number of searches (0: as many as the size says).")] = 0,
    runs: Annotated[int, typer.Option(help="Runs of each search, as the only budget (0: those of the size).")] = 0,
    base: Annotated[
        str | None, typer.Option(help="The reflector: a base model (`smollm2`, a GGUF file or a folder) [the pool].")
    ] = None,
    folder: Annotated[Path, typer.Option(help="With --base: where the base and what was found are kept.")] = FOLDER,
) -> None:
    """Search on each site by both, and print what each found. With `--base` a call goes on from the last one."""
    began, sizes = time.perf_counter(), QUICK if quick else Sizes() if base is None else LOCAL
    if base is not None:
        sizes = replace(sizes, budgets=LOCAL.budgets)
    budgets = (Budget("runs", runs),) if runs else sizes.budgets
    sizes = replace(sizes, searches=searches or sizes.searches, budgets=budgets)
    peer = python if python.exists() else None
    with own_server() as server:
        model = None if base is None else model_name(server, base, (folder / "models").resolve())
        kept = None if base is None else folder.resolve()
        todo = track([*product(sizes.budgets, range(sizes.searches))], "searching")
        found = [search(server, seed, sizes, budget, peer, model, kept) for budget, seed in todo]
    rows = [cells(each) for each in found]
    grid = Table(*HEADINGS, title="bench-instruction", title_justify="left")
    for row in rows:
        grid.add_row(*row)
    Console(width=170).print(grid)
    figures, spans = figures_of(found)
    bounds = {f"{each.of} of a search, at most": float(each.most) for each in sizes.budgets}
    figures |= bounds | {"minutes": (time.perf_counter() - began) / 60}
    left_out = {} if peer is not None else {"gepa": MISSING}
    lines = [f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}", *(f"| {' | '.join(row)} |" for row in rows)]
    named = "" if peer is None else f"{library_version(peer)}, {sizes.searches} searches.\n\n"
    name, own = ("bench-instruction", PAGE) if base is None else ("bench-instruction-local", LOCAL_PAGE)
    note, page = named + "\n".join(lines), own if write else None
    report(name, figures, {}, intervals=spans, left_out=left_out, page=page, note=note)


def search(
    server: Server,
    seed: int,
    sizes: Sizes,
    budget: Budget,
    python: Path | None,
    model: str | None = None,
    folder: Path | None = None,
) -> Search:
    """Search on the site of a seed by the loop within a budget, and by the library where it is installed.

    A `model` is the reflector of both, and what was found with it is kept in the `folder`.
    """
    with open_site(seed) as (desk, client):
        sealed = range(FIRST_SEALED, FIRST_SEALED + sizes.sealed)

        def judge(text: str) -> float:
            return fmean(Player(desk, client).play(text, sealed, explores=0.0))

        def kept(text: str) -> int:
            return sum(each in text for each in sentences_for(desk))

        def play_found(name: str, found: Callable[[], Found]) -> Arm:
            own = once(None if folder is None else folder / sizes.key(budget) / f"{name}-{seed}.json", found)
            passed = judge(own.text)
            leading = passed if own.leading in {None, own.text} else judge(str(own.leading))
            return Arm(passed, leading, kept(own.text), own.tried, own.spent)

        def by_library(python: Path) -> Found:
            player = Player(desk, client)
            with nullcontext() if model is None else reflector_of(model, seed) as reflect:
                text = search_by_peer(python, player, seed, budget, sizes.instances, sizes.val, reflect)
                return Found(text, 0, spent_by(player, reflect))

        project = f"instruction_{budget.of}_{seed}"
        by_loop = partial(search_by_loop, server, project, desk, client, seed, budget, model)
        ours = play_found("ours", by_loop)
        peer = None if python is None else play_found("gepa", partial(by_library, python))
        return Search(budget, seed, " and ".join(desk.obstacles), desk.words.site, judge(""), ours, peer)


def cells(each: Search) -> tuple[str, ...]:
    """A row of the table; where there are two numbers, ours is the first."""
    arms = [each.ours, *([] if each.peer is None else [each.peer])]
    peer = ("left out", "") if each.peer is None else (f"{each.peer.passed:.2f}", str(each.peer.kept))
    spent = (" / ".join(f"{getattr(each.spent, name):,}" for each in arms) for name in ("runs", "calls", "tokens"))
    ours = (f"{each.ours.passed:.2f}", f"{each.ours.leading:.2f}")
    shown = (f"{each.before:.2f}", *ours, peer[0], str(each.ours.kept), peer[1])
    return (each.budget.of, str(each.seed), each.obstacles, each.site, *shown, *spent)


def figures_of(found: Sequence[Search]) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Means over the searches by each budget, each with the 95 % interval of a bootstrap over them."""
    figures, spans = dict[str, float](), dict[str, tuple[float, float]]()
    for of in dict.fromkeys(each.budget.of for each in found):
        samples = _samples([each for each in found if each.budget.of == of])
        figures |= {f"equal {of}: {name}": fmean(values) for name, values in samples.items()}
        spans |= {f"equal {of}: {name}": bootstrap_mean(values) for name, values in samples.items()}
    return figures, spans


def _samples(found: Sequence[Search]) -> dict[str, list[float]]:
    """The values of each figure, one for each search."""
    samples = {"before": [each.before for each in found]}
    both = [(each.ours, each.peer) for each in found if each.peer is not None]
    arms = {"ours": [each.ours for each in found], "gepa": [peer for _, peer in both]}
    for name, own in arms.items():
        if not own:
            continue
        samples[name] = [each.passed for each in own]
        samples[f"{name}, solved"] = [float(each.passed >= SOLVED) for each in own]
        samples[f"{name}, sentences kept"] = [float(each.kept) for each in own]
        samples[f"{name}, runs"] = [float(each.spent.runs) for each in own]
        samples[f"{name}, calls"] = [float(each.spent.calls) for each in own]
        samples[f"{name}, tokens"] = [float(each.spent.tokens) for each in own]
    samples["ours, leading"] = [each.ours.leading for each in found]
    if both:
        samples["ours, leading, less gepa"] = [ours.leading - peer.passed for ours, peer in both]
        samples["ours less gepa"] = [ours.passed - peer.passed for ours, peer in both]
    return samples


def bootstrap_mean(values: Sequence[float], draws: int = DRAWS) -> tuple[float, float]:
    """The 95 % interval of a mean: percentiles of the means of resampled values. The draws are always the same."""
    rng = random.Random(0)  # noqa: S311 (a resample)
    means = sorted(fmean(rng.choices(values, k=len(values))) for _ in range(draws))
    return means[draws * 25 // 1_000], means[draws * 975 // 1_000 - 1]


if __name__ == "__main__":
    typer.run(main)
