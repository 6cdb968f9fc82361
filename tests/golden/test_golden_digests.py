"""The digest of every projection over the golden log: a fold that means something else needs a new version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from projections import ALL
from projections.engine.projection import AnyFold, digest_changes, replay
from tests.golden.test_golden_samples import golden_log, golden_rows

DIGESTS: dict[str, str] = json.loads((Path(__file__).parent / "digests.json").read_text())


def test_every_projection_and_no_other_has_a_golden_digest() -> None:
    assert set(DIGESTS) == {"log", *(f"{fold.name}.v{fold.version}" for fold in ALL)}


def test_the_digests_are_of_this_golden_log() -> None:
    assert DIGESTS["log"] == golden_rows()[-1].chain.hex()


@pytest.mark.parametrize("fold", ALL, ids=lambda fold: f"{fold.name}.v{fold.version}")
def test_a_fold_that_gives_another_digest_needs_another_version(fold: AnyFold) -> None:
    assert digest_changes(replay(fold, golden_log())) == DIGESTS[f"{fold.name}.v{fold.version}"]


if __name__ == "__main__":
    found = {f"{fold.name}.v{fold.version}": digest_changes(replay(fold, golden_log())) for fold in ALL}
    written = {"log": golden_rows()[-1].chain.hex(), **found}
    (Path(__file__).parent / "digests.json").write_text(json.dumps(written, indent=1) + "\n")
