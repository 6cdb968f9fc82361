"""The environment contract: the answers of a simulated site as frozen models.

`docs/environments.md` describes it in prose. Answers may carry more fields than these; a missing or mistyped one breaks
the contract. Scores are integers in micro-units, because events hold no floats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictBool, StrictInt, StrictStr

from .errors import NoPages

ADMIN_HEADER: Final = "X-Env-Admin"
INSTANCE_HEADER: Final = "X-Env-Instance"
MICRO: Final = 1_000_000
LARGEST_SEED: Final = 2**53 - 1
SHORTEST_TOKEN: Final = 16

Seed = Annotated[StrictInt, Field(ge=0, le=LARGEST_SEED)]
Name = Annotated[StrictStr, Field(min_length=1)]


class Answer(BaseModel):
    """Part of an environment's answer; unknown fields are ignored, so that sites can add more."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class TaskText(Answer):
    """A task that a site can grade: its instruction, and the cluster of its failures.

    `cluster` names the kind of cure that a failure needs; `control` tasks have none. The default is `unsorted`.
    """

    task_id: Name
    instruction: Name
    cluster: Name = "unsorted"


class Health(Answer):
    """Health of a site: its name, the number of open instances, and the tasks that it can grade."""

    site: Name
    instances: Annotated[StrictInt, Field(ge=0)]
    tasks: tuple[TaskText, ...]


PageAddress = Annotated[StrictStr, Field(pattern=r"^https?://[^/]+/")]


class Instance(Answer):
    """One isolated copy of an environment: its seed, its secret id, and the address of its first page.

    `repeat` is the index that its noise was drawn for; None if the site does not report one. `address` is None in an
    environment that is no web site.
    """

    seed: Seed
    repeat: Seed | None = None
    instance: Name
    address: PageAddress | None = Field(default=None, alias="url")

    @property
    def url(self) -> str:
        """The address of its first page. Raises NoPages."""
        if self.address is None:
            raise NoPages(actual=self.instance)
        return self.address


class SiteInstance(Instance):
    """An instance as a web site answers it: with an address."""

    address: PageAddress = Field(alias="url")


class Graded(Answer):
    """An oracle's grade of one instance. Reasons never reveal the answer; the diff may."""

    task_id: Name
    passed: StrictBool
    score_micro: Annotated[StrictInt, Field(ge=0, le=MICRO)]
    reasons: tuple[StrictStr, ...]
    diff: Mapping[str, JsonValue]


class Mutation(Answer):
    """One change that an agent made to an instance; ids count from 1 after each reset, `at` is simulated time."""

    id: Annotated[StrictInt, Field(ge=1)]
    operation: Name
    target_type: Name
    target_id: Name
    payload: Mapping[str, JsonValue]
    at: StrictInt


class InstanceState(Answer):
    """State of an instance. Equal fingerprints mean equal seeds and equal changes, also between instances."""

    seed: Seed
    counts: Mapping[str, StrictInt]
    fingerprint: Annotated[StrictStr, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


def micro_units(score: object) -> int:
    """Convert a JSON score to micro-units. Raises ValueError for anything but a number from 0 to 1."""
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise ValueError(f"the score is {score!r}, not a number")  # noqa: TRY004 (an answer's content, not a caller's type)
    if not math.isfinite(score) or not 0 <= score <= 1:
        raise ValueError(f"the score is {score!r}, not between 0 and 1")
    return int((Decimal(repr(score)) * MICRO).to_integral_value(rounding=ROUND_HALF_EVEN))
