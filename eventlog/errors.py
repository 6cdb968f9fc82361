"""Errors: the docstring is the message, its fields are the facts.

Each message names what was wrong, what was expected, and the way out. The facts stay on the error as attributes
in `facts`, so that a caller can act on `expected` and `actual` without reading prose.
"""

from __future__ import annotations

from inspect import cleandoc
from typing import Any, ClassVar


class FlywheelError(Exception):
    """{message}."""

    is_usage: ClassVar[bool] = False
    """Whether what was asked for is wrong, rather than what was found: commands end with the exit code of usage."""

    def __init__(self, **facts: object) -> None:
        self.facts = facts
        template = " ".join(cleandoc(type(self).__doc__ or "{message}").split())
        super().__init__(template.format(**facts))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.facts)


def _rebuilt(kind: type[FlywheelError], facts: dict[str, object]) -> FlywheelError:
    return kind(**facts)


class UnknownEventType(FlywheelError):
    """Event type {actual!r} is unknown at schema version {schema_version}: expected one of {expected}.
    A newer flywheel may have written this log; upgrade to read it."""


class NewerSchemaVersion(FlywheelError):
    """Event type {type} has schema version {actual}, newer than the {expected} this flywheel reads; upgrade to read it."""


class UpcasterMissing(FlywheelError):
    """Schema version {actual} of {type} cannot be carried on to {expected}: expected an upcaster for each version from 1 on;
    if the log is sound, this flywheel lacks a step in eventlog/upcast.py."""


class UpcastFailed(FlywheelError):
    """A payload of {type} at schema version {version} cannot be carried on: {actual}; expected the shape of that version."""


class UnstorableText(FlywheelError):
    """The text at {where} holds {actual}: expected Unicode text without NUL and lone surrogates; remove it and append again."""


class UnstorableNumber(FlywheelError):
    """The number {actual} at {where} is not an integer within 2^53: expected integers in micro-units, or a decimal string."""


class BrokenChain(FlywheelError):
    """The log is damaged at position {position}: {what} is {actual}, expected {expected}.
    Restore the database from a backup; events before {position} verify."""


class GuardDown(FlywheelError):
    """Nothing on {table} refuses {operation} in every session: expected triggers that are ENABLE ALWAYS, as the migrations make them.
    Someone with the owner's rights took them away: ask who, compare with a signed head, and restore the triggers."""


class VerifierLost(FlywheelError):
    """One of {workers} verifying processes ended before its range was done: expected all to go on; run it again with fewer --workers."""


class NotASignature(FlywheelError):
    """The file {file} is no signed head: {actual}; expected what `flywheel log sign --out FILE` writes."""


class SignatureBroken(FlywheelError):
    """The statement on position {position} is not what the key {expected} signed: it was altered; take it from where it was kept."""


class ForeignKey(FlywheelError):
    """The statement is signed with the key {actual}: expected the trusted key {expected}. Name another key that you trust with
    --public-key."""


class ForeignLog(FlywheelError):
    """This is {actual}: expected {expected}. The statement is of another log, or this one was rewritten from its first
    event on. If a new log was begun on purpose, give it another folder of keys with FLYWHEEL_KEYS."""


class LogTruncated(FlywheelError):
    """The log ends at position {actual}, but position {expected} was signed at {at}: its newest events are gone.
    Restore the database from a backup; do not sign it as it is."""


class LogRewritten(FlywheelError):
    """The log was rewritten at or before position {position}: its chain there is {actual}, and {expected} was signed at {at}.
    Restore the database from a backup; do not sign it as it is."""


class CorruptRow(FlywheelError):
    """The event at position {position} ({type}) cannot be read: {actual}; expected the shape of its vocabulary.
    Run `flywheel log verify` to see how far the log is sound."""


class BlobMissing(FlywheelError):
    """No blob has the digest {actual}: expected one that was stored before; was the database restored without its blobs?"""


class BlobDamaged(FlywheelError):
    """The blob {expected} has bytes whose digest is {actual}: expected its own; restore it from a backup."""


class BlobErased(FlywheelError):
    """The blob {actual} was erased with its subject: its bytes are gone for good, and what needs them answers *erased*."""


class SubjectGone(FlywheelError):
    """The subject {actual!r} was erased: nothing is kept for it any more; expected a subject that was not erased."""


class BytesRemain(FlywheelError):
    """The key of the subject {subject!r} is destroyed and nothing of it can be read, but its unreadable bytes remain: removing
    them is refused to the role {actual}, expected the schema's owner. Erase again with FLYWHEEL_OWNER_URL set."""


class OwnerNeeded(FlywheelError):
    """{what} is refused to the role {actual}: expected the schema's owner; set FLYWHEEL_OWNER_URL."""


class KeysUnset(FlywheelError):
    """There is no place for the key of the subject {actual!r}: expected a folder for keys; set FLYWHEEL_KEYS."""


class KeysExposed(FlywheelError):
    """The folder of keys {folder} has mode {actual}: expected {expected}, so that nobody else reads it; run `chmod 700` on it."""


class KeyDamaged(FlywheelError):
    """The key {file} holds {actual}: expected {expected} bytes; restore it from the backup of your keys."""


class ObjectStoreUnusable(FlywheelError):
    """The object store {url} cannot be used: {actual}. Expected s3://, gs://, file:// or memory:// with access to it; check
    FLYWHEEL_BLOBS."""


class NoMessages(FlywheelError):
    """A conversation of {actual} messages has no address: expected at least {expected}."""


class NotAConversation(FlywheelError):
    """The blob {address} is {actual}: expected a message of a conversation, {expected}."""


class WeightsFailure(FlywheelError):
    """These weights cannot be used: {message}."""


class BaseMissing(WeightsFailure):
    """The base model {path} cannot be used: {actual}. Expected a folder with config.json, tokenizer.json and safetensors."""


class BaseDiffers(WeightsFailure):
    """The base model {path} has the digest {actual}: expected {expected}. Name the folder that the request or its parent was made with."""


class CheckpointMissing(WeightsFailure):
    """There is no checkpoint in {path}: {actual}. Expected manifest.json and the files that it names."""


class CheckpointUnreadable(WeightsFailure):
    """The manifest of the checkpoint {path} cannot be read: {actual}. Expected canonical JSON; fetch the checkpoint again."""


class CheckpointAltered(WeightsFailure):
    """The checkpoint {path} was altered: {what} has the digest {actual}, expected {expected}. Fetch it again."""


class ForeignSchema(FlywheelError):
    """The schema {schema} is at migration {actual}, expected {expected}. {way_out}"""


class UnreleasedSchema(ForeignSchema):
    """The schema {schema} is at migration {actual}, which no release had: expected {expected}. Export its log with the flywheel that
    wrote it (`flywheel log export`), and import it into an empty project with this one (`flywheel log import`)."""


class LogUnavailable(FlywheelError):
    """The database does not answer: {actual}. Expected a reachable PostgreSQL 15 or newer; check FLYWHEEL_DATABASE_URL,
    or run `flywheel db up` for the embedded one."""


class OldServer(FlywheelError):
    """The database is PostgreSQL {actual}: expected {expected} or newer; upgrade it, or unset FLYWHEEL_DATABASE_URL to use the
    embedded one."""


class BadProjectName(FlywheelError):
    """The project name {actual!r} is not usable: expected a lower-case letter, then up to 39 letters, digits or underscores."""


class LogFull(FlywheelError):
    """No partition takes position {actual}: expected one to be reserved; run `flywheel db migrate` as the owner."""


class LogBusy(FlywheelError):
    """Already {actual} wait to be appended: expected at most {expected} with this one; try again in a moment, with the same
    key."""


class AppendInterrupted(FlywheelError):
    """The commit that carried {actual} append requests was interrupted: whether it is in the log is not known; expected an
    answer. Append again with the same keys."""


class LogNotEmpty(FlywheelError):
    """The log already holds {actual} events: expected an empty one to import into. Name a project that does not exist yet with FLYWHEEL_PROJECT; importing makes it."""


class NotALog(FlywheelError):
    """The file {file} is no whole exported log: it has {actual}, expected {expected}; export it again."""
