"""Concurrent writer processes that append outcomes of one rewrite; counts acknowledged outcomes that were lost."""

from __future__ import annotations

from multiprocessing import get_context

from benchmarks.log.server import Server
from eventlog.events import RewriteLost, RewriteWon
from eventlog.postgres import PostgresStore
from eventlog.store import Append, Committed
from projections.engine.projector import Projector
from projections.engine.views import catch_up_views
from projections.rewrites import REWRITES

from .coin import proposal_of, template_of
from .planted import ACTOR, RULE


def lost(server: Server, writers: int, outcomes: int) -> int:
    """Number of acknowledged outcomes of one rewrite, appended by `writers` processes, that its state lacks."""
    project = f"writers_{writers}"
    server.project(project)
    engine = server.engine(project)
    try:
        store = PostgresStore(engine)
        event = proposal_of(template_of(0)).rewrite("planted", RULE)
        store.append([Append(f"rewrite/{event.rewrite}", (event,), ACTOR)])
        with get_context("spawn").Pool(writers) as pool:
            tasks = [(server, project, event.rewrite, writer, outcomes) for writer in range(writers)]
            written = sum(pool.starmap(_write, tasks))
        state = catch_up_views(Projector(engine, (REWRITES,), store), engine, store).get(REWRITES, event.rewrite)
        counted = 0 if state is None else state.wins + state.losses
        return max(written, writers * outcomes) - counted
    finally:
        engine.dispose()


def _write(server: Server, project: str, rewrite: str, writer: int, outcomes: int) -> int:
    """Append outcomes one by one; return the number of commits."""
    engine = server.engine(project, pool_size=1)
    try:
        store, committed = PostgresStore(engine), 0
        for number in range(outcomes):
            run = f"w{writer}-{number}"
            kind = RewriteWon if (writer + number) % 2 else RewriteLost
            controls = tuple(f"{run}-{index}" for index in range(RULE.controls))
            event = kind(
                rewrite=rewrite,
                run=run,
                control_runs=controls,
                control_successes=number % 4,
                env_seed=writer * outcomes + number,
            )
            (outcome,) = store.append([Append(f"rewrite/{rewrite}", (event,), ACTOR, key=f"credit:{run}")])
            committed += isinstance(outcome, Committed)
        return committed
    finally:
        engine.dispose()
