"""Settings, read from environment variables. No other module reads the environment."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from .errors import BadSetting

_PREFIX: Final = "FLYWHEEL_"
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")


class Secret:
    """A text that is not shown by accident."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def get_secret_value(self) -> str:
        """The text itself."""
        return self._text

    def __repr__(self) -> str:
        return "Secret('…')"


class Settings(Struct, frozen=True, kw_only=True):
    """Settings of a process. Each field is an environment variable with the prefix FLYWHEEL_."""

    home: Path = Path(".flywheel")
    """Where the embedded PostgreSQL and local files live."""

    archive: Path | None = None
    """Where archived positions are kept, one folder a project; unset: `archive` in the home."""

    database_url: Secret | None = None
    """PostgreSQL 15 or newer; unset: the embedded one."""

    owner_url: Secret | None = None
    """The same database as the schema's owner, for migrations; unset: database_url."""

    keys: Path | None = None
    """Where keys are kept, one folder a project; unset: `keys` in the home."""

    blobs: str | None = None
    """Where blobs are kept: s3://, gs:// or file://; unset: in the database."""

    models: Path | None = None
    """Where weights are unpacked, a folder for each digest; unset: `models` in the home."""

    embeddings: Path | None = None
    """The folder of a static embedding model by which memory is matched beside its words; unset: none."""

    project: str = "default"
    """Which log: one PostgreSQL schema each."""

    host: str = "127.0.0.1"
    """The address `flywheel serve` listens on."""

    port: Annotated[int, Meta(ge=0, le=65535)] = 8700
    """The port `flywheel serve` listens on."""

    append_queue: Annotated[int, Meta(ge=1, le=100_000)] = 256
    """Appends over REST that may be in flight; the next is answered 429."""

    env_admin_token: Secret | None = None
    """The admin token of a site that already runs."""

    chromium: Path | None = None
    """The Chromium of the browser executor; unset: the first on the PATH."""

    daytona_key: Secret | None = None
    """The key of the owner of Daytona sandboxes."""

    daytona_url: str | None = None
    """The address of Daytona's API; unset: its own."""

    daytona_target: str | None = None
    """The region of Daytona sandboxes; unset: its own."""

    judge_api: Literal["openai", "anthropic"] = "openai"
    """What the judge's endpoint speaks."""

    judge_url: str | None = None
    """The judge's base address; unset: that provider's own."""

    judge_model: str | None = None
    """The model that judges runs and, where a site has no record, checks steps; unset: none."""

    judge_key: Secret | None = None
    """The key of the judge's endpoint."""

    recovery_model: str | None = None
    """The model that recovery asks where it finds no cure itself; transformers:FOLDER draws from a base model in the
    process; unset: none.
    """

    recovery_api: Literal["openai", "anthropic"] = "openai"
    """What its endpoint speaks."""

    recovery_url: str | None = None
    """Its base address; unset: that provider's own."""

    recovery_key: Secret | None = None
    """The key of its endpoint."""

    model: str | None = None
    """The model that acts as a policy and decomposes plans; transformers:FOLDER draws from a base model in the
    process; unset: none.
    """

    model_api: Literal["openai", "anthropic"] = "openai"
    """What its endpoint speaks."""

    model_url: str | None = None
    """Its base address; unset: that provider's own."""

    model_key: Secret | None = None
    """The key of its endpoint."""

    model_logprobs: bool = True
    """Whether its endpoint gives logprobs."""

    model_token_ids: bool = False
    """Whether its endpoint gives token ids, as vLLM does."""

    model_tokenizer: Annotated[str | None, Meta(pattern=r"^[0-9a-f]{64}$")] = None
    """SHA-256 of the tokenizer.json that its endpoint serves."""

    model_chat_template: Annotated[str | None, Meta(pattern=r"^[0-9a-f]{64}$")] = None
    """SHA-256 of the chat template that its endpoint serves."""

    model_processed_logprobs: bool = False
    """Whether its logprobs are of the distribution it draws from, as vLLM's processed are."""

    model_threads: Annotated[int, Meta(ge=1, le=256)] = 1
    """Threads that compute where the model is transformers:FOLDER, a base model in the process."""

    policy_wording: Literal["full", "brief"] = "full"
    """How much a policy and a demonstration are told; brief is for small models."""

    token: Secret | None = None
    """A token of the REST API that `flywheel doctor` checks."""

    @property
    def archive_folder(self) -> Path:
        """Folder of the archives of all projects."""
        return self.home / "archive" if self.archive is None else self.archive

    @property
    def model_folder(self) -> Path:
        """Folder where weights of all projects are unpacked."""
        return self.home / "models" if self.models is None else self.models

    @property
    def key_folder(self) -> Path:
        """Folder of this project's keys: the keys of its subjects and the signing key."""
        return (self.home / "keys" if self.keys is None else self.keys) / self.project

    @property
    def browser(self) -> Path | None:
        """Path of the configured Chromium, else of the first on the PATH; None if there is none."""
        if self.chromium is not None:
            return self.chromium
        found = next((path for name in CHROMIUMS if (path := shutil.which(name))), None)
        return None if found is None else Path(found)

    @property
    def is_embedded(self) -> bool:
        """True if the embedded database is used."""
        return self.database_url is None


def read_settings() -> Settings:
    """The settings of this process. Raises BadSetting."""
    return Settings(**{field.name: value for field in msgspec.structs.fields(Settings) for value in _given(field)})


def _given(field: msgspec.structs.FieldInfo) -> list[Any]:
    """The value of a field in the environment; empty if its variable is not set."""
    name = f"{_PREFIX}{field.name.upper()}"
    text = os.environ.get(name)
    if text is None:
        return []
    try:
        return [msgspec.convert(text, type=field.type, strict=False, dec_hook=_made_of)]
    except msgspec.ValidationError as error:
        raise BadSetting(name=name, actual=text, expected=_in_words(str(error))) from error


def _made_of(kind: type, text: str) -> object:
    return kind(text)


def _in_words(fault: str) -> str:
    return fault.replace("`int`", "a whole number").replace("`bool`", "true or false").partition(", got")[0]


def keep_ray_quiet() -> None:
    """Turn off Ray's usage reports. Must run before Ray is imported, which reads the environment variable."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
