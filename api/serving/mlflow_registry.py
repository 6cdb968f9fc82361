"""An MLflow registry, asked through the client of MLflow, which is an extra and imported on use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from projections.champions import ChampionState

from ..settings import keep_mlflow_quiet
from .errors import BadRegistry, MlflowMissing, RegistryFailed

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,200}")
_KNOWN: Final = "RESOURCE_ALREADY_EXISTS"
_NONE: Final = frozenset({"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"})
"""What a server answers where no version has the alias; which of the two differs between its versions."""

_Identity = tuple[str, str, str]
_IDENTITY: Final = ("artifact", "weights", "memory")
"""What identifies an artifact: its name and the digests of both halves, because names shorten them."""


class MlflowRegistry:
    """A registered model of an MLflow server. Credentials are MLflow's own variables, which are never printed.

    Each version has tags: the artifact and its digests, the project, and since which position it was champion first.
    The model has a tag of its own for each project and alias, with the position up to which moves were mirrored.
    """

    def __init__(self, url: str, model: str, alias: str, project: str) -> None:
        """Raises BadRegistry, MlflowMissing, RegistryFailed."""
        for what, name in (("model", model), ("alias", alias)):
            if not _NAME.fullmatch(name):
                raise BadRegistry(what=what, actual=repr(name), expected="letters, digits, spaces, and . _ -")
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
            expected = (
                "http(s)://HOST without user and password: MLFLOW_TRACKING_USERNAME and _PASSWORD or _TOKEN hold them"
            )
            raise BadRegistry(what="address", actual=f"that of {parts.hostname or 'no host'}", expected=expected)
        keep_mlflow_quiet()
        try:
            from mlflow import MlflowClient
            from mlflow.exceptions import MlflowException
        except ImportError as error:
            raise MlflowMissing(expected="mlflow") from error
        self.place = f"{model}@{alias} at {parts.hostname}"
        self.whole = f"{model} at {parts.hostname}:{parts.port}{parts.path}"
        self._client: Any = MlflowClient(tracking_uri=url, registry_uri=url)
        self._fault: type[Exception] = MlflowException
        self._model, self._alias, self._project = model, alias, project
        self._versions: dict[_Identity, str] | None = None

    def last_position(self) -> int:
        """The position of the last move that was mirrored; 0 if none was. Makes the model where there is none."""
        with self._guard_calls():
            try:
                self._client.create_registered_model(self._model, description="champions of flywheel")
            except self._fault as error:
                if _code_of(error) != _KNOWN:
                    raise
            tags = self._client.get_registered_model(self._model).tags
        found = str(tags.get(self._mark, "0"))
        return int(found) if found.isdecimal() else 0

    def ensure_version(self, champion: ChampionState) -> str:
        """The version of an artifact, which is made unless there is one."""
        known, identity = self._find_versions(), _identity_of(champion)
        if identity not in known:
            tags = dict(zip(_IDENTITY, identity, strict=True))
            tags |= {"project": self._project, "since": str(champion.since)}
            with self._guard_calls():
                made = self._client.create_model_version(
                    self._model,
                    source=f"flywheel://{self._project}/{champion.name}",
                    tags={f"flywheel.{name}": value for name, value in tags.items()},
                    description=f"Champion since position {champion.since}, moved by {champion.by}.",
                )
            known[identity] = str(made.version)
        return known[identity]

    def pointed_version(self) -> str | None:
        """The version that has the alias; None if none has."""
        with self._guard_calls():
            try:
                return str(self._client.get_model_version_by_alias(self._model, self._alias).version)
            except self._fault as error:
                if _code_of(error) in _NONE:
                    return None
                raise

    def point(self, version: str) -> None:
        """Give the alias to a version."""
        with self._guard_calls():
            self._client.set_registered_model_alias(self._model, self._alias, version)

    def remember(self, position: int) -> None:
        """Keep that all moves up to a position are mirrored."""
        with self._guard_calls():
            self._client.set_registered_model_tag(self._model, self._mark, str(position))

    @property
    def _mark(self) -> str:
        return f"flywheel.{self._project}.{self._alias}"

    def _find_versions(self) -> dict[_Identity, str]:
        """The versions of this project by identity, read once: this process alone adds to them."""
        if self._versions is None:
            with self._guard_calls():
                self._versions = dict(self._list_versions())
        return self._versions

    def _list_versions(self) -> Iterator[tuple[_Identity, str]]:
        page = None
        while True:
            found = self._client.search_model_versions(f"name='{self._model}'", max_results=200, page_token=page)
            for each in found:
                artifact, weights, memory = (str(each.tags.get(f"flywheel.{name}")) for name in _IDENTITY)
                if each.tags.get("flywheel.project") == self._project:
                    yield (artifact, weights, memory), str(each.version)
            page = found.token
            if not page:
                return

    @contextmanager
    def _guard_calls(self) -> Iterator[None]:
        """Raise RegistryFailed for any error of MLflow, without the text of it, which may quote what was sent."""
        try:
            yield
        except (self._fault, OSError) as error:
            self._versions = None
            raise RegistryFailed(place=self.place, actual=_code_of(error) or type(error).__name__) from None


def _identity_of(champion: ChampionState) -> _Identity:
    artifact = champion.pointed_artifact()
    return str(artifact), artifact.weights, artifact.memory.digest


def _code_of(error: Exception) -> str | None:
    found: str | None = getattr(error, "error_code", None)
    return found
