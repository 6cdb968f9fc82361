"""Errors of training, of base models and of published checkpoints. The docstring of an error is its message."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class OtherKind(FlywheelError):
    """The dataset {dataset} has the kind {actual}, but {algorithm} trains on {expected}. Build one with `flywheel dataset build {expected}`."""


class NoBase(FlywheelError):
    """There is no base model to train: {actual}; expected a folder with its files, the name of one that `flywheel base add` added, or the
    digest of one made by a warm-up. Name it with --base."""


class BaseSourceMissing(FlywheelError):
    """There is no base model to add: {actual}; expected {expected}."""


class StartDiffers(FlywheelError):
    """The start model of the warm-up {checkpoint}, made again from the log, has the digest {actual}: expected {expected}. It was
    made with other library versions, on another CPU type, or by hand. Give its folder with --base."""


class NotABase(FlywheelError):
    """The checkpoint {actual} was made by {algorithm}: expected a base model made by a warm-up. Use --from to continue from a checkpoint."""


class BadConfig(FlywheelError):
    """The configuration of {algorithm} is wrong at {where}: {actual}. docs/training.md describes all fields."""


class TrainingEnded(FlywheelError):
    """{training} ended without a checkpoint because of {error}: {actual}"""


class TrainedTwice(FlywheelError):
    """Another process trained {training} in the meantime: {actual} at position {position} has other content, so this result
    was not recorded. Run the command again; it resumes from the log."""


class NotPublished(FlywheelError):
    """Nothing was published to {place}: {actual}; expected {expected}."""
