"""Suites: the versions of each, with their positions in the log; and where registered environments run."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from .engine.projection import EventRow, Fold, FoldState


class SuiteVersion(FoldState, frozen=True, kw_only=True):
    """One version of a suite: the position of its event, the digest of its content, and its environment."""

    version: int
    position: int
    digest: str
    environment: str


class SuiteState(FoldState, frozen=True, kw_only=True):
    """A suite: its versions, oldest first."""

    suite: str = ""
    versions: tuple[SuiteVersion, ...] = ()

    @property
    def newest(self) -> SuiteVersion:
        """The newest version. Raises IndexError for a suite without one."""
        return self.versions[-1]

    def version(self, number: int) -> SuiteVersion | None:
        """The version of this number, if there is one."""
        return next((each for each in self.versions if each.version == number), None)


def _add_version(state: SuiteState, row: EventRow) -> SuiteState:
    found = SuiteVersion(
        version=row.version, position=row.position, digest=row.text("digest"), environment=row.text("environment")
    )
    return replace(state, suite=row.text("suite"), versions=(*state.versions, found))


SUITES = Fold(
    name="suites",
    version=1,
    reads={"SuiteRegistered": ("suite", "environment", "digest")},
    initial=SuiteState(),
    key=lambda row: row.text("suite"),
    fold=_add_version,
)


class RegistrationState(FoldState, frozen=True, kw_only=True):
    """The newest registration of an environment; `since` is its position."""

    environment: str = ""
    url: str | None = None
    admin_url: str | None = None
    sandbox: str | None = None
    port: int | None = None
    admin_port: int | None = None
    token: str = ""
    dialect: str | None = None
    suite: str | None = None
    pool: dict[str, Any] | None = None
    since: int = 0


def _registration(_state: RegistrationState, row: EventRow) -> RegistrationState:
    return RegistrationState(
        environment=row.text("environment"),
        url=row.maybe_text("url"),
        admin_url=row.maybe_text("admin_url"),
        sandbox=row.maybe_text("sandbox"),
        port=row.field("port"),
        admin_port=row.field("admin_port"),
        token=row.text("token"),
        dialect=row.maybe_text("dialect"),
        suite=row.maybe_text("suite"),
        pool=row.maybe_record("pool"),
        since=row.position,
    )


REGISTRATIONS = Fold(
    name="registrations",
    version=2,
    reads={
        "EnvironmentRegistered": (
            "environment",
            "url",
            "admin_url",
            "sandbox",
            "port",
            "admin_port",
            "token",
            "dialect",
            "suite",
            "pool",
        )
    },
    initial=RegistrationState(),
    key=lambda row: row.text("environment"),
    fold=_registration,
)
