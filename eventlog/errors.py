"""Errors: the docstring is the message template, its fields are filled from the facts.

Each message names what was wrong, what was expected, and the way out. The facts stay on the error in `facts`, so that
a caller can act on `expected` and `actual` without parsing prose.
"""

from __future__ import annotations

from inspect import cleandoc
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from pydantic import ValidationError


class FlywheelError(Exception):
    """{message}."""

    is_usage: ClassVar[bool] = False
    """True if the request was wrong, not the state of the system. Commands then exit with the usage exit code."""

    def __init__(self, **facts: object) -> None:
        self.facts = facts
        template = " ".join(cleandoc(type(self).__doc__ or "{message}").split())
        super().__init__(template.format(**facts))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.facts)


def _rebuilt(kind: type[FlywheelError], facts: dict[str, object]) -> FlywheelError:
    return kind(**facts)


def first_fault(error: ValidationError, whole: str = "it") -> str:
    """The first fault that a validation found, after its place; `whole` names the validated value itself."""
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, fault['loc'])) or whole}: {fault['msg']}"


class UnknownEventType(FlywheelError):
    """Event type {actual!r} is unknown at schema version {schema_version}: expected one of {expected}.
    A newer flywheel may have written this log; upgrade to read it."""


class NewerSchemaVersion(FlywheelError):
    """Event type {type} has schema version {actual}, newer than the {expected} this flywheel reads; upgrade to read it."""


class UpcasterMissing(FlywheelError):
    """Event type {type} cannot be upcast from schema version {actual} to {expected}: expected an upcaster for every version from 1.
    If `flywheel log verify` passes, this is a bug in this flywheel: eventlog/upcast.py lacks the step. Report it or upgrade."""


class UpcastFailed(FlywheelError):
    """A payload of event type {type} cannot be upcast from schema version {version}: {actual}. Expected the fields of that version.
    Run `flywheel log verify` to see whether the log is damaged."""


class UnstorableText(FlywheelError):
    """The text at {where} contains {actual}: expected Unicode text without NUL characters and lone surrogates. Remove them and
    append again."""


class UnstorableNumber(FlywheelError):
    """The number {actual} at {where} cannot be stored: expected an integer within 2^53. Use an integer in micro-units or a decimal
    string."""


class BrokenChain(FlywheelError):
    """The log is damaged at position {position}: {what} is {actual}, expected {expected}.
    Restore the database from a backup; events before {position} verify."""


class GuardDown(FlywheelError):
    """The table {table} has no trigger that refuses {operation} in every session: expected the ENABLE ALWAYS triggers that the
    migrations create. Only a role with the owner's rights can remove them: find out who did, compare the log with a signed head
    (`flywheel log verify --signature FILE`), and restore the triggers."""


class VerifierLost(FlywheelError):
    """One of {workers} verification processes died before its range was verified: expected all of them to finish, and memory is the
    usual cause. Run the command again with fewer --workers."""


class NotASignature(FlywheelError):
    """The file {file} is not a signed head: {actual}. Expected a file written by `flywheel log sign --out FILE`; name that file."""


class SignatureBroken(FlywheelError):
    """The signature of the signed head at position {position} is invalid: expected a valid signature by the key {expected}. The file
    was altered after signing; use an unaltered copy."""


class ForeignKey(FlywheelError):
    """The head is signed with the key {actual}: expected the trusted key {expected}. If you trust another public key, name it with
    --public-key."""


class ForeignLog(FlywheelError):
    """This is {actual}: expected {expected}. The signed head belongs to another log, or this log was rewritten from its first event.
    If you started a new log on purpose, use another key folder for it: set FLYWHEEL_KEYS."""


class LogTruncated(FlywheelError):
    """The log ends at position {actual}, but position {expected} was signed at {at}: its newest events are missing.
    Restore the database from a backup, and do not sign the log in its present state."""


class LogRewritten(FlywheelError):
    """The log was rewritten at or before position {position}: its chain there is {actual}, and {expected} was signed at {at}.
    Restore the database from a backup, and do not sign the log in its present state."""


class KeysRewritten(FlywheelError):
    """The append keys were rewritten at or before position {position}: their chain there is {actual}, and {expected} was signed at {at}.
    Restore the database from a backup, and do not sign the log in its present state."""


class CorruptRow(FlywheelError):
    """The event at position {position} ({type}) cannot be read: {actual}. Expected a payload with the fields of its event type.
    Run `flywheel log verify` to find the first damaged position."""


class BlobMissing(FlywheelError):
    """No blob has the digest {actual}: expected a blob that was stored before the event that names it. If the database was restored
    from a backup, restore its blobs too."""


class BlobDamaged(FlywheelError):
    """The blob {expected} is damaged: the digest of its bytes is {actual}. Expected the digest to equal the address; restore the
    blob from a backup."""


class BlobErased(FlywheelError):
    """The blob {actual} was erased with its subject: its bytes cannot be recovered, and every read that needs them answers
    *erased*."""


class SubjectGone(FlywheelError):
    """The subject {actual!r} was erased, so no data can be stored for it: expected a subject that was not erased. Use a new
    pseudonym for new data."""


class BytesRemain(FlywheelError):
    """The key of the subject {subject!r} is destroyed, so its data is unreadable, but its encrypted bytes are still stored: the role
    {actual} may not delete them, expected the schema's owner. Set FLYWHEEL_OWNER_URL and erase the subject again."""


class OwnerNeeded(FlywheelError):
    """{what} is not permitted to the role {actual}: expected the owner of the schema. Set FLYWHEEL_OWNER_URL."""


class KeysUnset(FlywheelError):
    """The key of the subject {actual!r} cannot be stored: expected a key folder, and none is configured. Set FLYWHEEL_KEYS."""


class KeysExposed(FlywheelError):
    """The key folder {folder} has mode {actual}: expected {expected}, so that no other user can read it. Run `chmod 700 {folder}`."""


class KeyDamaged(FlywheelError):
    """The key file {file} is unusable: found {actual}, expected {expected} bytes. Restore it from the backup of your keys."""


class ObjectStoreUnusable(FlywheelError):
    """The object store {url} cannot be used: {actual}. Expected an accessible s3://, gs://, file:// or memory:// URL; check
    FLYWHEEL_BLOBS."""


class NoMessages(FlywheelError):
    """A conversation of {actual} messages cannot be stored: expected at least {expected} message."""


class NotAConversation(FlywheelError):
    """The blob {address} has the media type {actual}: expected {expected}, a message of a conversation. Name the address of a
    message."""


class WeightsFailure(FlywheelError):
    """These weights cannot be used: {message}."""


class BaseMissing(WeightsFailure):
    """The base model {path} cannot be used: {actual}. Expected a folder with config.json, tokenizer.json and safetensors."""


class BaseDiffers(WeightsFailure):
    """The base model {path} has the digest {actual}: expected {expected}. Name the folder of the base model that the request or its
    parent checkpoint was made with."""


class CheckpointMissing(WeightsFailure):
    """There is no complete checkpoint in {path}: {actual}. Expected manifest.json and every file that it names."""


class CheckpointUnreadable(WeightsFailure):
    """The manifest of the checkpoint {path} cannot be read: {actual}. Expected canonical JSON; fetch the checkpoint again."""


class CheckpointAltered(WeightsFailure):
    """The checkpoint {path} was altered: {what} has the digest {actual}, expected {expected}. Fetch the checkpoint again."""


class ForeignSchema(FlywheelError):
    """The schema {schema} is at migration {actual}, expected {expected}. {way_out}"""


class UnreleasedSchema(ForeignSchema):
    """The schema {schema} is at migration {actual}, which was never released: expected {expected}. Export the log with the flywheel
    that wrote it (`flywheel log export`), then import it into an empty project with this one (`flywheel log import`)."""


class LogUnavailable(FlywheelError):
    """The database does not answer: {actual}. Expected a reachable PostgreSQL 15 or newer; check FLYWHEEL_DATABASE_URL,
    or run `flywheel db up` to start the embedded server."""


class OutageTooLong(LogUnavailable):
    """The database has not answered for {waited_s:.0f} s: {actual}. Start it, then start this process again; it resumes from the log.
    `flywheel db up` starts the embedded server."""


class DatabaseRefused(FlywheelError):
    """The database refused a statement: {actual} (SQLSTATE {code}). Nothing of it was written. Expected a server that is not
    read-only, has free space and grants this role its rights (`flywheel db migrate` does)."""


class StatementEnded(FlywheelError):
    """The database ended a statement early: {actual} (SQLSTATE {code}). Nothing of it was written. Expected no other transaction in
    its way, and nobody to cancel it. Try again."""


class OldServer(FlywheelError):
    """The database is PostgreSQL {actual}: expected {expected} or newer. Upgrade it, or unset FLYWHEEL_DATABASE_URL to use the
    embedded server."""


class BadProjectName(FlywheelError):
    """The project name {actual!r} is invalid: expected a lower-case letter, then up to 39 lower-case letters, digits or underscores.
    Choose another name with FLYWHEEL_PROJECT."""


class LogFull(FlywheelError):
    """No partition of the events table covers position {actual}: expected one to be reserved ahead of the head. Run
    `flywheel db migrate` as the schema's owner."""


class LogBusy(FlywheelError):
    """The append queue is full: {actual} events are waiting, expected at most {expected} including this request. Retry in a moment
    with the same append key."""


class LockLost(FlywheelError):
    """The database connection that held the lock of {lock} was lost: {actual}. Another process may hold the lock, so this one appends
    nothing more. Start it again; it resumes from the log."""


class AppendInterrupted(FlywheelError):
    """The commit of {actual} append requests was interrupted, so it is unknown whether they are in the log: expected the database to
    confirm it. Append again with the same keys, which never writes an event twice."""


class LogNotEmpty(FlywheelError):
    """The log already holds {actual} events: expected an empty log to import into. Set FLYWHEEL_PROJECT to a project that does not
    exist yet and leave out `flywheel db up`, which appends a token: the import creates the project."""


class NotALog(FlywheelError):
    """The file {file} is not a complete exported log: it has {actual}, expected {expected}. Export the log again with
    `flywheel log export`."""
