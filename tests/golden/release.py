"""Keeps what a release writes: its log as exported, and what its folds make of it, as `make release-sample` commits it.

Run it with the code of the release, once, before its tag is set; a sample is never made again.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from api import embedded
from api.cli.db import migrate_project
from api.house import House, open_house
from api.settings import Settings
from eventlog.codec import decode_event
from eventlog.database import open_engine
from eventlog.events import EVENT_TYPES
from eventlog.store import Append, Committed
from eventlog.transfer import export_log, import_log
from migrations.migrate import newest_revision
from projections import ALL
from projections.engine.projection import digest_changes, replay

GOLDEN = Path(__file__).parent
RELEASES = GOLDEN / "releases"
MIGRATIONS = GOLDEN.parents[1] / "migrations"


def main(name: str, folder: Path = RELEASES) -> str:
    """Write NAME.ndjson.gz and NAME.json into the folder; what was written, in a sentence."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise SystemExit(f"{name!r} is no name for a release; expected that of its tag, such as v0.2.0")
    file = folder / f"{name}.ndjson.gz"
    if file.exists():
        raise SystemExit(f"{file} is kept already; a release is sampled once. Choose the name of the new tag")
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="flywheel-release-") as home:
        settings = Settings(home=Path(home))
        embedded.up(settings.home)
        try:
            migrate_project(settings)
            house = open_house(settings)
            fill(house, embedded.endpoints(settings.home).owner_url)
            export_log(house.engine, file)
            (folder / f"{name}.json").write_text(json.dumps(facts(house), indent=1) + "\n")
            house.close()
        finally:
            embedded.down(settings.home)
    return f"{file} and {name}.json hold what this release writes; commit both"


def fill(house: House, owner_url: str) -> None:
    """The golden log, then the sample of each event type that it lacks."""
    owner = open_engine(owner_url, house.settings.project)
    import_log(owner, GOLDEN / "log.ndjson.gz")
    owner.dispose()
    seen = {row.type for row in house.store.read_stored()}
    for kind, model in sorted(EVENT_TYPES.items()):
        if kind not in seen:
            kept = json.loads((GOLDEN / "events" / f"{kind}.v{model.schema_version}.json").read_text("utf-8"))
            event = decode_event(kind, model.schema_version, json.dumps(kept["payload"]))
            run = kept["payload"].get("run")
            stream = f"sample/{kind}" if run is None else f"run/{run}"
            (outcome,) = house.store.append([Append(stream, (event,), "release", key=f"sample:{kind}")])
            if not isinstance(outcome, Committed):
                raise TypeError(f"the sample of {kind} was not committed: {outcome}")


def facts(house: House) -> dict[str, Any]:
    """What this release makes of its log, and what it was made of."""
    rows = list(house.store.read_stored())
    counted = Counter(f"{row.type}.v{row.schema_version}" for row in rows)
    events = list(house.store.read())
    return {
        "commit": _commit(),
        "migration": newest_revision(),
        "migrations": {file.relative_to(MIGRATIONS).as_posix(): _sha256(file) for file in migrations()},
        "events": dict(sorted(counted.items())),
        "samples": {file.stem: _sha256(file) for file in sorted((GOLDEN / "events").glob("*.json"))},
        "head": len(rows),
        "chain": rows[-1].chain.hex(),
        "folds": {f"{fold.name}.v{fold.version}": digest_changes(replay(fold, events)) for fold in ALL},
    }


def migrations() -> list[Path]:
    """The files that make the schema."""
    return sorted([*MIGRATIONS.glob("versions/[0-9]*.py"), *MIGRATIONS.glob("sql/*.sql")])


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _commit() -> str:
    found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=GOLDEN, check=False)
    return found.stdout.strip() or "unknown"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("expected one argument, the name of the release: make release-sample NAME=v0.2.0")
    sys.stderr.write(main(sys.argv[1]) + "\n")
