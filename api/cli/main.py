"""Entry point of the flywheel command: exit codes, and errors reported as one sentence.

Exit codes: 0 done, 1 error, 2 gate hold, 3 gate void, 64 usage, 130 interrupted.
"""

from __future__ import annotations

import faulthandler
import gc
import sys

from typer.exceptions import Abort, TyperException

from eventlog.errors import FlywheelError

from .commands import COMMANDS, SERVED, every_command, why_unserved
from .interrupts import INTERRUPTED, is_interrupt, leave_to_watch, watch_interrupts

USAGE = 64
ERROR = 1
_CLICK_USAGE = 2

app = every_command()


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit with its code. Ctrl-C is answered at once."""
    gc.disable()  # what is made first are modules, which stay; a command turns it on when it is imported
    faulthandler.enable(sys.__stderr__ or 2)  # a crash of a library says in which calls it happened
    await_sentence = watch_interrupts(_say)
    code: int | None = None
    try:
        code = run_command(sys.argv[1:] if arguments is None else arguments)
        leave_to_watch()
    except BaseException as error:
        if not is_interrupt(error):
            raise
        leave_to_watch()  # it came when the command had ended, or when the first one was answered
        code = INTERRUPTED if code is None else code
    if code == INTERRUPTED:
        await_sentence()
    gc.freeze()  # or Python looks for garbage in all modules, more than once, before it ends: .1 s
    sys.exit(code)


def run_command(arguments: list[str]) -> int:
    """Run one command and return its exit code. Every expected error is one sentence on standard error."""
    arguments = _server_last(arguments)
    try:
        code = app.main(args=arguments, prog_name="flywheel", standalone_mode=False)
    except TyperException as error:
        path = getattr(getattr(error, "ctx", None), "command_path", None)
        # What is unknown has similar names to propose; an option whose value is missing has none.
        if getattr(error, "option_name", None) == "--server" and hasattr(error, "possibilities"):
            return _report_misuse(_why_not_served(str(path)), arguments, path)
        code = _report_misuse(error.format_message(), arguments, path)
        return code if error.exit_code == _CLICK_USAGE else ERROR
    except FlywheelError as error:
        if error.is_usage:
            return _report_misuse(str(error), arguments)
        _say(str(error))
        return ERROR
    except KeyboardInterrupt:
        return INTERRUPTED
    except _expected_errors() as error:
        _say(_sentence(error))
        return ERROR
    except Exception as error:
        if is_interrupt(error):
            return INTERRUPTED
        raise
    return code if isinstance(code, int) else 0


def _report_misuse(said: str, arguments: list[str], path: str | None = None) -> int:
    """Report a usage error and where to find help: at the command's `path`, if it is known. Returns the exit code."""
    _say(said)
    named = "flywheel" + (f" {arguments[0]}" if arguments and arguments[0] in COMMANDS else "")
    _print(f"Try: {path or named} --help")
    return USAGE


def _why_not_served(path: str) -> str:
    words = path.removeprefix("flywheel ")
    why = why_unserved(words)
    if why is None:
        example = next((each for each in SERVED if each.startswith(f"{words} ")), "champion show")
        return f"--server comes after the whole command, as in `flywheel {example} --server URL`"
    return f"{words!r} takes no --server, because {why}; run it where the log is (docs/rest.md names those that ask)"


def _server_last(arguments: list[str]) -> list[str]:
    """These arguments with a --server that stands before the command put after it, where every command looks for it."""
    if not arguments or not arguments[0].startswith("--server"):
        return arguments
    amount = 1 if "=" in arguments[0] else 2
    first, rest = arguments[:amount], arguments[amount:]
    if first[0].partition("=")[0] != "--server" or not rest:
        return arguments
    words = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:words], *first, *rest[words:]]


def _expected_errors() -> tuple[type[Exception], ...]:
    """Errors besides FlywheelError that are reported in one sentence. Evaluated only after an error was raised."""
    from pydantic import ValidationError
    from sqlalchemy.exc import DBAPIError

    return DBAPIError, ValidationError, OSError, Abort


def _sentence(error: Exception) -> str:
    """Message of an expected error."""
    from pydantic import ValidationError
    from sqlalchemy.exc import DBAPIError

    from eventlog.database import database_error

    match error:
        case DBAPIError():
            return str(database_error(error))
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
    _print(f"flywheel: {text}")


def _print(text: str) -> None:
    from rich.text import Text

    from .output import ERR

    ERR.print(Text(text), soft_wrap=True)
