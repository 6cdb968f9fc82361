"""Errors that a caller of the capture proxy gets."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class BadRegistry(FlywheelError):
    """The {what} of the registry is {actual}: expected {expected}."""

    is_usage = True


class MlflowMissing(FlywheelError):
    """Mirroring the champion needs a library that is not installed: expected {expected}. Install it: pip install 'flywheel[mlflow]'."""


class RegistryFailed(FlywheelError):
    """{place} was not reached or refused ({actual}): expected an MLflow server that takes the credentials in MLFLOW_TRACKING_….
    Nothing is lost: the log has every move."""


class BadCall(FlywheelError):
    """The request's {where} is {actual}: expected {expected}. Nothing was sent to the model."""


class PromptTooLarge(FlywheelError):
    """The request has {actual}: expected at most {expected} bytes. Nothing was sent to the model. Shorten the prompt, or have
    FLYWHEEL_PROMPT_BYTES raised where `flywheel serve` runs."""


class NoUpstream(FlywheelError):
    """No model is behind this address: {actual}. Expected {expected} where `flywheel serve` runs; start it again with that setting."""


class UnknownModel(FlywheelError):
    """There is no model {actual!r} here. Expected one of: {expected}."""


class RunClosed(FlywheelError):
    """The run {run!r} has ended ({actual}), so nothing is recorded for it any more. Use a new run id, for example by another base URL."""


class RewardReported(FlywheelError):
    """The run {run!r} has the reward {actual} already: expected a run without one. A reward is final; withdraw the run
    with `flywheel runs withdraw` if it is wrong."""


class OpinionRefused(FlywheelError):
    """No opinion on the run {run!r} is recorded, because it is {actual}: expected a run that ended and is not sealed."""


class OpinionReported(FlywheelError):
    """The judge {judge!r} said something else of the run {run!r} before: expected the same opinion, or another judge's name."""


class RunUnnamed(FlywheelError):
    """The request names no run. Put it into the base URL (/ext-NAME/v1), into the header X-Flywheel-Run, or
    after the token in the key (TOKEN/ext-NAME)."""


class RunMisnamed(FlywheelError):
    """The request names the run {actual!r}, but its key is for {expected!r}: expected one run. Nothing was sent to the model. Take
    the run out of the base URL and of X-Flywheel-Run, or out of the key."""


class UpstreamRefused(FlywheelError):
    """The model server at {url} refused the key of this proxy (HTTP {actual}). Set FLYWHEEL_MODEL_KEY to a key that it accepts where
    `flywheel serve` runs."""


class UpstreamAnswered(FlywheelError):
    """The model server answered HTTP {actual}: {said}"""


class UpstreamLost(FlywheelError):
    """The model server at {url} gave no whole answer: {actual}. Nothing was recorded of this call; try it again."""


class NoSuchRun(FlywheelError):
    """The key is good for no run that is being played: expected the key that this run's agent was given, while it lasts."""


class TooManyCalls(FlywheelError):
    """The run has made {expected} model calls: expected no more. End the run, or ask for more in one call."""


class ReferenceChanged(FlywheelError):
    """At the reference {reference}, which is {path} here, lies {actual}: expected {expected}. Nothing was played. Publish the checkpoint
    again with `flywheel checkpoint publish`, or name the place where it lies unchanged."""


class NothingDeployed(FlywheelError):
    """The deployment {deployment!r} serves no model yet. Try again in a few seconds; `flywheel serve --model` says what it loads."""


class DeploymentBroken(FlywheelError):
    """The champion's weights could not be loaded and checked: {actual}. Expected an answer to a smoke prompt. Free memory or
    mend the files, then start this process again, or point to another champion."""


class TargetRefused(FlywheelError):
    """Nothing was written for the deploy target: {actual}; expected {expected}."""
