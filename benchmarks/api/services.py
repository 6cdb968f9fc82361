"""The servers that traces are sent to: flywheel, MLflow and Phoenix, each on a database of one PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import httpx2

from benchmarks.log.server import Server

from .processes import Program, free_port
from .traces import SPANS, SentTraces

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / ".bench-api-venv"
MISSING = "it is not installed; `make bench-api` installs it where it can"
COMMAND = (sys.executable, "-c", "from api.cli.main import main; main()")
PROJECT = "ingest"
_PAGE = 500


class TraceService(Protocol):
    """A server that takes traces by OTLP and says how many of them it can show."""

    program: Program

    def prepare(self, traces: SentTraces) -> Mapping[str, str]:
        """Make room for traces; the headers to send them with."""
        ...

    def count(self, client: httpx2.Client, traces: SentTraces) -> int:
        """How many spans of these traces can be read now."""
        ...


@dataclass
class Flywheel:
    """`flywheel serve`: a trace is a run, which has ended once the root is recorded, and all spans with it."""

    program: Program
    token: str

    def prepare(self, traces: SentTraces) -> Mapping[str, str]:  # noqa: ARG002 the protocol's
        """See TraceService."""
        return {"Authorization": f"Bearer {self.token}"}

    def count(self, client: httpx2.Client, traces: SentTraces) -> int:
        """See TraceService. Each batch holds whole traces, and what is appended of a trace is appended at once."""
        start = f"ext-otel-{traces.prefix}"
        found, after = 0, start
        while True:
            asked = {"after": after, "limit": str(_PAGE), "status": "completed"}
            answer = client.get("/v1/runs", params=asked, headers=self.prepare(traces))
            answer.raise_for_status()
            told = answer.json()
            own = sum(str(run["run"]).startswith(start) for run in told["runs"])
            found += SPANS * own
            if told["next"] is None or own < len(told["runs"]):
                return found
            after = str(told["next"])


@dataclass
class Mlflow:
    """`mlflow server`: traces of an experiment, counted by their recorded numbers of spans."""

    program: Program

    def prepare(self, traces: SentTraces) -> Mapping[str, str]:
        """See TraceService: a new experiment."""
        address = f"{self.program.url}/api/2.0/mlflow/experiments"
        made = httpx2.post(f"{address}/create", json={"name": traces.project}, timeout=60, trust_env=False)
        made.raise_for_status()
        return {"x-mlflow-experiment-id": str(made.json()["experiment_id"])}

    def count(self, client: httpx2.Client, traces: SentTraces) -> int:
        """See TraceService."""
        named = client.get("/api/2.0/mlflow/experiments/get-by-name", params={"experiment_name": traces.project})
        named.raise_for_status()
        number = named.json()["experiment"]["experiment_id"]
        place = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": number}}
        found, token = 0, None
        while True:
            asked = {"locations": [place], "max_results": _PAGE, **({"page_token": token} if token else {})}
            answer = client.post("/api/3.0/mlflow/traces/search", json=asked)
            answer.raise_for_status()
            told = answer.json()
            found += SPANS * len(told.get("traces", ()))
            token = told.get("next_page_token")
            if not token:
                return found


@dataclass
class Phoenix:
    """`phoenix serve`: spans of a project, which the resource of the traces names."""

    program: Program

    def prepare(self, traces: SentTraces) -> Mapping[str, str]:  # noqa: ARG002 the protocol's
        """See TraceService."""
        return {}

    def count(self, client: httpx2.Client, traces: SentTraces) -> int:
        """See TraceService."""
        query = "{ projects(first: 1000) { edges { node { name recordCount } } } }"
        answer = client.post("/graphql", json={"query": query})
        answer.raise_for_status()
        nodes = [edge["node"] for edge in answer.json()["data"]["projects"]["edges"]]
        return sum(int(node["recordCount"]) for node in nodes if node["name"] == traces.project)


def serving(server: Server, folder: Path, project: str, **settings: str) -> tuple[Program, str]:
    """`flywheel serve` on a project that exists, not started yet, and an admin's token."""
    own = {"DATABASE_URL": server.app_url, "OWNER_URL": server.owner_url, "PROJECT": project, "HOME": str(folder)}
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env = {**kept, **{f"FLYWHEEL_{name}": value for name, value in (own | settings).items()}, "PYTHONPATH": str(ROOT)}
    issued = subprocess.run(
        (*COMMAND, "token", "issue", "bench", "--role", "admin"),
        env=env, cwd=folder, check=True, capture_output=True, text=True,
    )  # fmt: skip
    port = free_port()
    program = Program(
        (*COMMAND, "serve", "--port", str(port)), env, f"http://127.0.0.1:{port}", "/readyz", folder / f"{project}.log"
    )
    return program, issued.stdout.strip()


def open_flywheel(server: Server, folder: Path) -> Flywheel:
    """Flywheel on a new project."""
    server.project(PROJECT)
    return Flywheel(*serving(server, folder, PROJECT))


def open_mlflow(server: Server, folder: Path) -> Mlflow:
    """MLflow on a new database, with one worker and without its runner of jobs."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    places = ("--backend-store-uri", _url("postgresql+psycopg2", server.peer("mlflow")))
    words = (
        *(_command("mlflow"), "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
        *(*places, "--artifacts-destination", str(folder / "mlflow-artifacts")),
    )
    env = _plain_environment() | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    return Mlflow(Program(words, env, url, "/health", folder / "mlflow.log"))


def open_phoenix(server: Server, folder: Path) -> Phoenix:
    """Phoenix on a new database."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    own = {
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "GRPC_PORT": str(free_port()),
        "WORKING_DIR": str(folder / "phoenix"),
        "SQL_DATABASE_URL": _url("postgresql", server.peer("phoenix")),
        "TELEMETRY_ENABLED": "false",
    }
    env = _plain_environment() | {f"PHOENIX_{name}": value for name, value in own.items()}
    return Phoenix(Program((_command("phoenix"), "serve"), env, url, "/healthz", folder / "phoenix.log"))


def _command(name: str) -> str:
    return str(ENVIRONMENT / "bin" / name)


def _plain_environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TMPDIR", "OMP_NUM_THREADS") if name in os.environ}
    return kept | {"PATH": f"{ENVIRONMENT / 'bin'}:/usr/bin:/bin", "HOME": str(Path.home())}


def _url(scheme: str, told: Mapping[str, str]) -> str:
    who = f"{told['POSTGRES_USER']}:{quote(told['POSTGRES_PASSWORD'], safe='')}"
    where = f"host={quote(told['POSTGRES_HOST'], safe='')}&port={told['POSTGRES_PORT']}"
    return f"{scheme}://{who}@/{told['POSTGRES_DBNAME']}?{where}"
