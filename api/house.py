"""The composition root: builds everything that commands and routes need from the settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sqlalchemy import Engine
from sqlalchemy.exc import ProgrammingError

from eventlog.blobs import Inventory, PostgresBlobs
from eventlog.database import OutagePatience, open_engine, project_schema
from eventlog.errors import ForeignSchema, ObjectStoreUnusable
from eventlog.keys import FolderKeys
from eventlog.postgres import PostgresStore
from eventlog.store import Position
from migrations.migrate import check_version, version_of
from projections.access import ACCESS
from projections.engine.projector import Projector
from projections.engine.views import PostgresViews, catch_up_views

from .positions import read_position
from .settings import Settings

if TYPE_CHECKING:
    from agents.learning.similarity import Embeddings
    from eventlog.events import Memory
    from projections.frames.framing import FrameViews

    from .run_owners import RunOpeners
    from .tokens import TokenCache


@dataclass(frozen=True)
class House:
    """One project: its log, blobs, projections and settings."""

    settings: Settings
    engine: Engine
    store: PostgresStore
    blobs: Inventory
    projector: Projector

    def views(self, as_of: Position | None = None) -> PostgresViews:
        """Views at a position, default the head; updates projections first. Raises NotThereYet, ProjectionParked."""
        return catch_up_views(self.projector, self.engine, self.store, as_of=as_of)

    def views_at(self, given: str | None) -> PostgresViews:
        """Views at a position or time that a user names, default the head. Raises BadPosition, and as `views`."""
        return self.views(read_position(self.store, given))

    @cached_property
    def gatekeeper(self) -> Projector:
        """Projector of tokens alone: the other projections may be behind or parked, and are not waited for."""
        return Projector(self.engine, (ACCESS,), self.store)

    @cached_property
    def known_tokens(self) -> TokenCache:
        """The accepted tokens as they were last read."""
        from .tokens import TokenCache

        return TokenCache(self.store)

    @cached_property
    def run_openers(self) -> RunOpeners:
        """The openers of runs, as far as they were asked for."""
        from .run_owners import RunOpeners

        return RunOpeners(self.store)

    @cached_property
    def frames(self) -> FrameViews:
        """Views of frames; they cache the last frame read."""
        from projections.frames.framing import FrameViews

        return FrameViews(self.engine, self.store)

    @cached_property
    def embeddings(self) -> Embeddings | None:
        """The configured embedding model for matching memory, or None. Raises EmbeddingsUnfit, LibrariesMissing."""
        from agents.learning.embeddings import read_embeddings

        folder = self.settings.embeddings
        return None if folder is None else read_embeddings(folder)

    def embeddings_of(self, memory: Memory) -> Embeddings | None:
        """The embedding model that a memory was pinned with, or None.

        Raises EmbeddingsMissing, EmbeddingsOther, EmbeddingsUnfit, LibrariesMissing.
        """
        from agents.learning.embeddings import pinned_embeddings

        return None if memory.embeddings is None else pinned_embeddings(memory, self.embeddings)

    def close(self) -> None:
        """Close all database connections."""
        self.engine.dispose()


def application_url(settings: Settings) -> str:
    """The database URL of the application. Raises errors of api.embedded if the embedded database is not set up."""
    if settings.database_url is not None:
        return settings.database_url.get_secret_value()
    from .embedded import endpoints

    return endpoints(settings.home).app_url


def owner_url(settings: Settings) -> str:
    """The database URL of the schema's owner, for migrations."""
    if settings.owner_url is not None:
        return settings.owner_url.get_secret_value()
    if settings.database_url is not None:
        return settings.database_url.get_secret_value()
    from .embedded import endpoints

    return endpoints(settings.home).owner_url


def blobs_of(settings: Settings, engine: Engine) -> Inventory:
    """The project's blob store with the keys of its subjects. Raises ObjectStoreUnusable."""
    keys = FolderKeys(settings.key_folder)
    if not settings.blobs:
        return PostgresBlobs(engine, keys)
    from eventlog.blobs.objects import open_objects

    return open_objects(f"{settings.blobs.rstrip('/')}/{settings.project}", keys)


@contextmanager
def project_engine(settings: Settings, *, is_owner: bool = False) -> Iterator[Engine]:
    """An engine for the application or the schema's owner, disposed of at the end of the block."""
    engine = open_engine(owner_url(settings) if is_owner else application_url(settings), settings.project)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def owned_blobs(settings: Settings) -> Iterator[Inventory]:
    """The project's blob store with the right to delete, for erasure and sweeping."""
    with project_engine(settings, is_owner=True) as engine:
        yield blobs_of(settings, engine)


def open_house(settings: Settings, patience: OutagePatience | None = None) -> House:
    """Connect and check. Raises LogUnavailable, OldServer, BadProjectName, ForeignSchema, ObjectStoreUnusable.

    With `patience`, later outages of the database are waited for.
    """
    engine = open_engine(application_url(settings), settings.project, patience=patience)
    try:
        check_schema(engine)
        blobs = blobs_of(settings, engine)
    except (ForeignSchema, ObjectStoreUnusable):
        engine.dispose()
        raise
    store = PostgresStore(engine, archive=settings.archive_folder)
    return House(settings, engine, store, blobs, Projector(engine, store=store))


def check_schema(engine: Engine) -> None:
    """Raise ForeignSchema or UnreleasedSchema unless the project's schema is at the migration this code expects."""
    try:
        with engine.connect() as connection:
            actual = version_of(connection)
    except ProgrammingError:
        actual = None
    check_version(project_schema(engine), actual)
