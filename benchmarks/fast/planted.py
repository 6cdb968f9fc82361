"""Runs planted candidates through the real pipeline of sweeps, recording, credit and folds, with simulated outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from agents.rewards import DEFAULT_PRICES
from agents.rollouts.play import PLAN, Job, Means, play, start_facts
from agents.rollouts.sweep import SeedSweep
from api.house import House
from api.settings import Settings
from api.sweeps.jobs import jobs_of
from api.sweeps.plan import first_facts, plan
from api.sweeps.play import credit
from benchmarks.log.server import Server
from eventlog.blobs import Blob, PostgresBlobs
from eventlog.events import PairedRule, Template, Trials
from eventlog.postgres import PostgresStore
from eventlog.store import Append
from projections.benchmarks import BENCHMARKS
from projections.champions import CHAMPIONS
from projections.costs import PriceBook
from projections.engine.projector import Projector
from projections.groups import GROUPS
from projections.memories import FOLDS
from projections.pieces import HINTS
from projections.rewards import REWARDS
from projections.rewrites import REWRITES
from projections.runs import RUNS

from .coin import SITE, Coin, CoinSite, Kind, proposal_of, template_of

ACTOR = "bench"
RULE = PairedRule.current()
_EVERY_GROUP = Trials(treated_micro=1_000_000, withheld_micro=0)
_READ = (RUNS, REWARDS, GROUPS, REWRITES, HINTS, CHAMPIONS, BENCHMARKS)
_CHUNK = 1_000


@dataclass(frozen=True, slots=True)
class Cell:
    """Candidates of a kind: their number, and the success rates without and with a candidate, in millionths."""

    base: int
    cured: int
    candidates: int
    seed: int
    kind: Kind = "rewrite"

    @property
    def project(self) -> str:
        """Project of this cell."""
        return f"coin_{self.kind}_{self.base}_{self.cured}"


@dataclass(frozen=True, slots=True)
class Ended:
    """Final state of a cell's candidates, number of runs, and number of runs with a candidate."""

    cell: Cell
    statuses: dict[str, int]
    runs: int
    treated: int

    @property
    def promoted(self) -> int:
        """Number of promoted candidates."""
        return self.statuses.get("promoted", 0)


def ended(server: Server, cell: Cell) -> Ended:
    """Run a cell's candidates in a separate project."""
    server.project(cell.project)
    engine = server.engine(cell.project)
    try:
        store = PostgresStore(engine)
        house = House(Settings(), engine, store, PostgresBlobs(engine), Projector(engine, _READ, store))
        return swept(house, cell)
    finally:
        engine.dispose()


def swept(house: House, cell: Cell) -> Ended:
    """Sweep until every candidate is decided; each sweep plays as many runs per candidate as one interim look needs."""
    first_facts(house)
    names = _proposed(house, cell)
    means = _means(cell)
    runs = treated = before = 0
    for number, look in enumerate(RULE.looks):
        views = house.views()
        left = [names[key] for key, state in views.find(FOLDS[cell.kind]).items() if state.status == "candidate"]
        if not left:
            break
        generator = SeedSweep(f"coin-{number}", left, range(before, look), 1 + RULE.controls)
        sweep = plan(house, views, SITE, generator, rng_seed=cell.seed, trials=_EVERY_GROUP, learns=False)
        _record(house, means, jobs_of(house, views, sweep, sweep.specs))
        credit(house, sweep)
        runs, treated, before = runs + len(sweep.specs), treated + len(left) * (look - before), look
    statuses = Counter(state.status for state in house.views().find(FOLDS[cell.kind]).values())
    return Ended(cell, dict(statuses), runs, treated)


def _proposed(house: House, cell: Cell) -> dict[str, Template]:
    """Plant each candidate at a separate task; return the tasks keyed by candidate."""
    found: dict[str, Template] = {}
    requests, contents = [], []
    for number in range(cell.candidates):
        template = template_of(number)
        proposal = proposal_of(template, cell.kind)
        event, name = proposal.event(f"planted-{number}", RULE), proposal.name
        found[name] = template
        requests.append(Append(f"{cell.kind}/{name}", (event,), ACTOR, key=f"propose:{name}"))
        contents.append(proposal.content)
    house.blobs.put(contents)
    house.store.append(requests)
    return found


def _means(cell: Cell) -> Means:
    site = CoinSite()
    book = PriceBook(**DEFAULT_PRICES.model_dump(exclude={"type"}))
    coin = Coin(site, cell.base, cell.cured, cell.seed)
    return Means(site, book, RULE, stopwatch=lambda: 0, executor=coin)


def _record(house: House, means: Means, jobs: Sequence[Job]) -> None:
    """Play and record jobs like rollouts, but many in one append, because disk latency is not measured here."""
    for place in range(0, len(jobs), _CHUNK):
        blobs: dict[str, Blob] = {}
        requests: list[Append] = []
        for job in jobs[place : place + _CHUNK]:
            start, plan_blob = start_facts(job, PLAN.name)
            played = play(job, means)
            requests += [
                Append(f"run/{job.run}", (start,), ACTOR, key=f"start:{job.run}"),
                Append(f"run/{job.run}", played.events, ACTOR, key=f"finish:{job.run}"),
            ]
            blobs |= {blob.digest: blob for blob in (plan_blob, *played.blobs)}
        house.blobs.put(list(blobs.values()))
        house.store.append(requests)
