"""Settings, read from environment variables. No other module reads the environment."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from .errors import BadSetting

CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""In this order: the headless shell opens pages for a third of the processor time (60 s and 181 s for 111 pages)."""
DEBIANS = Path("/usr/lib/chromium/chromium-headless-shell")
"""The program behind Debian's command. The command is a script, and a browser outlives it when it is killed."""

HARMLESS = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables that every agent from outside gets."""


class Settings(BaseSettings):
    """Settings of a process. Each field is an environment variable with the prefix FLYWHEEL_."""

    model_config = SettingsConfigDict(env_prefix="FLYWHEEL_", frozen=True, extra="ignore")

    home: Path = Field(default=Path(".flywheel"), description="where the embedded PostgreSQL and local files live")
    archive: Path | None = Field(
        default=None,
        description="where archived positions are kept, one folder a project; unset: `archive` in the home",
    )
    database_url: SecretStr | None = Field(default=None, description="PostgreSQL 15 or newer; unset: the embedded one")
    owner_url: SecretStr | None = Field(
        default=None, description="the same database as the schema's owner, for migrations; unset: database_url"
    )
    keys: Path | None = Field(
        default=None, description="where keys are kept, one folder a project; unset: `keys` in the home"
    )
    blobs: str | None = Field(
        default=None, description="where blobs are kept: s3://, gs:// or file://; unset: in the database"
    )
    models: Path | None = Field(
        default=None, description="where weights are unpacked, a folder for each digest; unset: `models` in the home"
    )
    embeddings: Path | None = Field(
        default=None,
        description="the folder of a static embedding model by which memory is matched beside its words, or wordllama, "
        "the package's model; unset: none",
    )
    project: str = Field(default="default", description="which log: one PostgreSQL schema each")
    predict_dollars: float = Field(
        default=25, gt=0, le=1e6, description="the most that `max_cost` of POST /v1/predict may allow a run, in dollars"
    )
    predict_minutes: float = Field(
        default=60, gt=0, le=1e6, description="the most that `max_time_minutes` of POST /v1/predict may allow a run"
    )
    host: str = Field(default="127.0.0.1", description="the address `flywheel serve` listens on")
    port: int = Field(default=8700, ge=0, le=65535, description="the port `flywheel serve` listens on")

    tls_certificate: Path | None = Field(
        default=None, description="a file with the certificate of `flywheel serve` and its chain, in PEM; unset: no TLS"
    )
    tls_key: Path | None = Field(
        default=None, description="a file with the key of that certificate, in PEM; unset: it is in the same file"
    )
    requests_per_second: float | None = Field(
        default=None,
        gt=0,
        le=1e6,
        description="requests a second by one token over REST, and sign-ins from one address, in bursts of ten "
        "seconds' worth; beyond them 429; unset: any",
    )
    append_queue: int = Field(
        default=256, ge=1, le=100_000, description="appends over REST that may be in flight; the next is answered 429"
    )
    append_bytes: int = Field(
        default=4 * 2**20, ge=1024, le=2**30, description="bytes of an append over REST; a larger one is answered 413"
    )
    prompt_bytes: int = Field(
        default=32 * 2**20,
        ge=1024,
        le=2**30,
        description="bytes of a call through the capture proxy; larger ones are answered 413",
    )
    trace_bytes: int = Field(
        default=32 * 2**20,
        ge=1024,
        le=2**30,
        description="bytes of a request of traces, also inflated; larger ones are answered 413",
    )
    dataset_bytes: int = Field(
        default=2 * 2**30,
        ge=0,
        le=2**44,
        description="bytes of dataset rows that REST keeps as files in the home, so that they are built once; 0: none",
    )
    bodies: int = Field(
        default=128,
        ge=1,
        le=100_000,
        description="bodies that may be received at once, and blobs among them stored; the next is answered 429",
    )
    bodies_per_token: int = Field(
        default=32, ge=1, le=100_000, description="bodies by one token that may be received at once; see bodies"
    )
    body_bytes: int = Field(
        default=512 * 2**20,
        ge=1024,
        le=2**40,
        description="bytes that the bodies of all callers may hold together, those of model calls until they are "
        "answered; beyond them 429",
    )
    body_seconds: int = Field(
        default=15,
        ge=1,
        le=3600,
        description="seconds in which a body must arrive, and one more for each 256 KiB of it; later is answered 408",
    )
    alpha_cap: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="the most alpha that all benchmarks of a project may have together; unset: any",
    )

    env_admin_token: SecretStr | None = Field(default=None, description="the admin token of a site that already runs")
    chromium: Path | None = Field(
        default=None, description="the Chromium of the browser executor; unset: the first on the PATH"
    )

    daytona_key: SecretStr | None = Field(default=None, description="the key of the owner of Daytona sandboxes")
    daytona_url: str | None = Field(default=None, description="the address of Daytona's API; unset: its own")
    daytona_target: str | None = Field(default=None, description="the region of Daytona sandboxes; unset: its own")

    judge_api: Literal["openai", "anthropic"] = Field(default="openai", description="what the judge's endpoint speaks")
    judge_url: str | None = Field(default=None, description="the judge's base address; unset: that provider's own")
    judge_model: str | None = Field(
        default=None,
        description="the model that judges runs and, where a site has no record, checks steps; unset: none",
    )
    judge_key: SecretStr | None = Field(default=None, description="the key of the judge's endpoint")

    recovery_model: str | None = Field(
        default=None,
        description="the model that recovery asks where it finds no cure itself, and that proposes lessons about a "
        "policy's failed runs; transformers:FOLDER draws from a base model in the process; unset: none",
    )
    recovery_api: Literal["openai", "anthropic"] = Field(default="openai", description="what its endpoint speaks")
    recovery_url: str | None = Field(default=None, description="its base address; unset: that provider's own")
    recovery_key: SecretStr | None = Field(default=None, description="the key of its endpoint")

    model: str | None = Field(
        default=None,
        description="the model that acts as a policy and decomposes plans; transformers:FOLDER draws from a base model "
        "in the process; unset: none",
    )
    model_api: Literal["openai", "anthropic"] = Field(default="openai", description="what its endpoint speaks")
    model_url: str | None = Field(default=None, description="its base address; unset: that provider's own")
    model_key: SecretStr | None = Field(default=None, description="the key of its endpoint")
    model_logprobs: bool = Field(default=True, description="whether its endpoint gives logprobs")
    model_token_ids: bool = Field(default=False, description="whether its endpoint gives token ids, as vLLM does")
    model_tokenizer: str | None = Field(
        default=None, pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the tokenizer.json that its endpoint serves"
    )
    model_chat_template: str | None = Field(
        default=None, pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the chat template that its endpoint serves"
    )
    model_processed_logprobs: bool = Field(
        default=False, description="whether its logprobs are of the distribution it draws from, as vLLM's processed are"
    )
    model_uncut: bool = Field(
        default=False,
        description="whether the proxy states temperature and top_p 1 and no top_k, min_p and repetition penalty for "
        "callers that leave them out, which a server else takes from its model",
    )
    model_seconds: float = Field(
        default=600, gt=0, le=86_400, description="seconds that the proxy waits for the next bytes of its endpoint"
    )
    model_base: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{64}$",
        description="digest of the base that its endpoint serves, where that is vLLM which loads adapters; unset: none",
    )
    model_store: str | None = Field(
        default=None,
        pattern=r"^/",
        description="where that endpoint sees the folder of models; unset: at the same path",
    )
    mounts: dict[str, Path] = Field(
        default_factory=dict, description='volumes of references such as store:/ck, as JSON: {"store": "/mnt/store"}'
    )
    lora_adapter: str | None = Field(
        default=None, description="reference of the adapter of every policy that POST /v1/predict plays; unset: any"
    )
    model_gguf: Literal["f32", "f16", "q8_0"] = Field(
        default="f32",
        description="the precision of a base where the model is llamacpp:FOLDER; q8_0 gives no logprobs to train on",
    )
    model_threads: int = Field(
        default=1, ge=1, le=256, description="threads of the model transformers:FOLDER or llamacpp:FOLDER"
    )

    remote_url: str | None = Field(default=None, description="another Flywheel, for --executor remote; unset: none")
    remote_token: SecretStr | None = Field(default=None, description="a token of its role operate")
    remote_store: str = Field(default="store:", description="where it finds published checkpoints, as DIGEST/peft")
    remote_model: str | None = Field(default=None, description="its policies' model; unset: the one its settings name")
    remote_minutes: float = Field(default=15, gt=0, le=1440, description="minutes of a run there, twice with its wait")
    remote_dollars: float | None = Field(default=None, gt=0, le=1e6, description="dollars of a run there; unset: any")
    remote_logprobs: bool = Field(default=False, description="whether it gives token ids with logprobs, as GRPO needs")

    policy_wording: Literal["full", "brief"] = Field(
        default="full", description="how much a policy and a demonstration are told; brief is for small models"
    )

    agent_seconds: float = Field(default=120, gt=0, le=86_400, description="seconds of an agent of --agent in each run")
    agent_variables: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9_, ]*$",
        description="names of environment variables, separated by commas, that such an agent gets besides its task",
    )
    record_site: bool = Field(
        default=False, description="whether what such an agent is answered is kept, for `flywheel runs replay --agent`"
    )
    webhook_networks: str | None = Field(
        default=None,
        description="networks that webhooks reach although not public or without TLS, as 10.1.0.0/16; unset: none",
    )
    token: SecretStr | None = Field(default=None, description="a REST token: `--server` sends it, `doctor` checks it")

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
        if found == f"/usr/bin/{DEBIANS.name}" and DEBIANS.exists():
            return DEBIANS
        return None if found is None else Path(found)

    @property
    def is_embedded(self) -> bool:
        """True if the embedded database is used."""
        return self.database_url is None


def read_settings() -> Settings:
    """The settings of this process. Raises BadSetting."""
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = "FLYWHEEL_" + "_".join(str(part) for part in first["loc"]).upper()
        raise BadSetting(name=name, actual=first["input"], expected=first["msg"]) from error


def agent_environment(settings: Settings) -> dict[str, str]:
    """The variables of this process that an agent from outside may have: no address of a database, and no token.

    Raises BadSetting if the settings name a variable of Flywheel's own for it.
    """
    named = [name.strip() for name in settings.agent_variables.split(",") if name.strip()]
    own = next((name for name in named if name.upper().startswith(("FLYWHEEL_", "PG"))), None)
    if own is not None:
        raise BadSetting(name="FLYWHEEL_AGENT_VARIABLES", actual=own, expected="names of the agent's own variables")
    return {name: os.environ[name] for name in (*HARMLESS, *named) if name in os.environ}


def read_secret(variable: str) -> SecretStr | None:
    """The value of an environment variable that a registration names; None if it is unset or empty."""
    value = os.environ.get(variable)
    return SecretStr(value) if value else None


def keep_mlflow_quiet() -> None:
    """Turn off MLflow's usage reports and its minutes of retries. Must run before MLflow is imported."""
    os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"} | os.environ


def keep_ray_quiet() -> None:
    """Turn off Ray's usage reports. Must run before Ray is imported, which reads the environment variable."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
