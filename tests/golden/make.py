"""Writes the golden log: a small flywheel history, played for real, as `make golden` commits it.

It is made again only when the vocabulary changes before the first release; from then on it is kept for ever.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from agents.envs.clients.client import EnvClient
from agents.envs.provider import local_site
from api import embedded
from api.cli.db import migrate_project
from api.controllers.fast import Controller
from api.course import Course
from api.datasets import freeze
from api.environments.admission import admit_at_first_use
from api.environments.connect import Placed
from api.house import open_house
from api.reporter import Advance
from api.settings import Settings
from eventlog.events import Rules, SeedsRule, SftQuery, Trials
from eventlog.transfer import export_log
from gate import promote

FILE = Path(__file__).parent / "log.ndjson.gz"


class Quiet:
    """A Reporter that shows nothing."""

    @contextmanager
    def phase(self, title: str, total: int) -> Iterator[Advance]:
        yield lambda **_: None

    def say(self, text: str) -> None:
        pass


def make(file: Path) -> int:
    """Play two rounds, a promotion, a dataset, a hand-made pointing and a rollback; the number of events."""
    with tempfile.TemporaryDirectory(prefix="flywheel-golden-") as folder:
        settings = Settings(home=Path(folder))
        embedded.up(settings.home)
        try:
            migrate_project(settings)
            house = open_house(settings)
            course = Course(
                seeds_per_round=6,
                visible_seeds=(9_000,),
                sealed_seeds=tuple(range(10_000, 10_010)),
                max_rounds=6,
                max_verdicts=1,
                clusters=("navigation",),
                rule=SeedsRule(),
                trials=Trials(treated_micro=1_000_000, withheld_micro=0),
                max_parallel=1,
                rules=Rules(min_pairs=20),
            )
            with local_site("marketplace") as site, EnvClient(site.admin_url, site.admin_token) as client:
                admit = partial(admit_at_first_use, placed=Placed(site, client), reporter=Quiet())
                controller = Controller(house, client, site.name, course, Quiet(), admit=admit)
                sys.stderr.write(controller.run() + "\n")
                first = house.views()
                freeze.freeze_dataset(
                    house.store, freeze.build_dataset(house.store, house.blobs, first, SftQuery()), "golden"
                )
                promote.back(house.store, house.views(), "to have a rollback in the golden log", "golden")
            return export_log(house.engine, file)
        finally:
            embedded.down(settings.home)


if __name__ == "__main__":
    sys.stderr.write(f"{make(FILE)} events are in {FILE.name}\n")
