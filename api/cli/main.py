"""The flywheel command: groups of commands, exit codes, and errors as one sentence.

Exit codes: 0 done, 1 error, 2 gate hold, 3 gate void, 64 usage.
"""

from __future__ import annotations

import sys

import typer
from pydantic import ValidationError
from rich.text import Text
from sqlalchemy.exc import DBAPIError
from typer.exceptions import Abort, TyperException

from agents.envs.errors import BadDialect, BadSiteUrl
from agents.rollouts.errors import BenchmarkInstance
from eventlog.database import first_line
from eventlog.errors import FlywheelError, LogUnavailable

from ..errors import NoSite
from . import (
    archive,
    artifact,
    benchmark,
    blobs,
    champion,
    dataset,
    db,
    diff,
    doctor,
    env,
    erase,
    failures,
    gate,
    judging,
    log,
    outcomes,
    pieces,
    recipes,
    regrading,
    replay,
    rewrites,
    rollout,
    run,
    runs,
    serve,
    token,
    whatif,
    worker,
)
from .output import ERR

USAGE = 64
ERROR = 1
INTERRUPTED = 130
_CLICK_USAGE = 2

app = typer.Typer(
    name="flywheel",
    help="Make agents better from their own runs, and prove it: run, replay, judge, promote, roll back.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("run")(run.run)
app.command("serve")(serve.serve)
app.command("worker")(worker.worker)
app.command("replay")(replay.replay)
app.command("diff")(diff.diff)
app.command("what-if")(whatif.what_if)
app.command("outcomes")(outcomes.outcomes)
app.command("doctor")(doctor.doctor)
log.app.command("archive")(archive.archive_command)
runs.app.command()(judging.grade)
runs.app.command()(judging.judges)
runs.app.command()(regrading.regrade)
app.command("erase")(erase.erase)
for _name, _group in (
    ("db", db.app),
    ("log", log.app),
    ("rollout", rollout.app),
    ("runs", runs.app),
    ("rewrites", rewrites.app),
    ("hints", pieces.group_of("hint")),
    ("exemplars", pieces.group_of("exemplar")),
    ("curriculum", pieces.group_of("snippet")),
    ("recipes", recipes.app),
    ("failures", failures.app),
    ("env", env.app),
    ("dataset", dataset.app),
    ("benchmark", benchmark.app),
    ("gate", gate.app),
    ("blobs", blobs.app),
    ("champion", champion.app),
    ("artifact", artifact.app),
    ("token", token.app),
):
    app.add_typer(_group, name=_name)


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit with its code."""
    sys.exit(run_command(sys.argv[1:] if arguments is None else arguments))


def run_command(arguments: list[str]) -> int:
    """Run one command; its exit code. Every expected error is one sentence on standard error."""
    try:
        code = typer.main.get_command(app).main(args=arguments, prog_name="flywheel", standalone_mode=False)
    except TyperException as error:
        code = _misused(error.format_message(), arguments)
        return code if error.exit_code == _CLICK_USAGE else ERROR
    except (NoSite, BadSiteUrl, BadDialect, BenchmarkInstance) as error:
        return _misused(str(error), arguments)
    except (FlywheelError, DBAPIError, ValidationError, OSError, Abort) as error:
        _say(_sentence(error))
        return ERROR
    except KeyboardInterrupt:
        _say("interrupted; run it again to go on from where the log stands")
        return INTERRUPTED
    return code if isinstance(code, int) else 0


def _misused(said: str, arguments: list[str]) -> int:
    """What was wrong with a command's words, and where its help is; the exit code."""
    _say(said)
    ERR.print(Text(f"Try: flywheel {_group_of(arguments)}--help"), soft_wrap=True)
    return USAGE


def _sentence(error: Exception) -> str:
    """What an expected error says to a person."""
    match error:
        case DBAPIError():
            return str(LogUnavailable(actual=first_line(error)))
        case ValidationError():
            first = error.errors(include_url=False)[0]
            return f"{'.'.join(map(str, first['loc']))} is {first['input']!r}: {first['msg']}"
        case OSError():
            return f"{error.filename or 'a file'}: {error.strerror}; choose another one"
        case Abort():
            return "stopped; nothing was changed"
        case _:
            return str(error)


def _say(text: str) -> None:
    ERR.print(Text(f"flywheel: {text}"), soft_wrap=True)


def _group_of(arguments: list[str]) -> str:
    """The command or group that was meant, where there is one of that name."""
    known = {str(command.name) for command in app.registered_commands} | {str(g.name) for g in app.registered_groups}
    return f"{arguments[0]} " if arguments and arguments[0] in known else ""
