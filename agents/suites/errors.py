"""Errors of suites. Each names the field that is wrong and the way out."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class BadSuite(FlywheelError):
    """The file {file} is not a valid suite: {actual}; expected {expected}. docs/suites.md names the fields, and
    `flywheel suite check {file}` lists every fault."""

    is_usage = True


class NotGradedHere(FlywheelError):
    """The suite {suite} has {actual}: expected task ids that {environment} grades: {expected}.
    Correct `oracle_task` of the task, or name the site that grades it."""

    is_usage = True


class NoPlan(FlywheelError):
    """No plan is known for {actual}: expected steps or text in the suite, because the executor follows a plan.
    Add a plan to the suite, choose other tasks, or play with an agent: --executor policy."""

    is_usage = True


class NoSuite(FlywheelError):
    """There is no suite {actual}: expected {expected}.
    Write one with `flywheel suite new`, and bring it in with `flywheel suite add FILE`."""

    is_usage = True


class OtherEnvironment(FlywheelError):
    """The suite {suite} is for the environment {actual!r}: expected one for {expected!r}.
    Correct its field `environment`, or choose another suite with --suite."""

    is_usage = True


class MicroSuiteRefused(FlywheelError):
    """The suite cannot be read as a plan: {actual}; expected {expected}."""


class SuiteChanged(FlywheelError):
    """The suite {suite} was not brought in: another command brought in its version {actual} meanwhile. Expected no other
    version. Look at it with `flywheel suite show {suite}`, then bring yours in again."""
