"""Errors that a caller over HTTP gets beside those of the rooms."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class NotAuthorized(FlywheelError):
    """{actual}: expected `Authorization: Bearer <token>` with a token that is accepted; issue one with `flywheel token issue NAME`."""


class RoleTooLow(FlywheelError):
    """The token {token!r} has the role {actual}: expected {expected} or a role above it to {what}. Issue another token with
    `flywheel token issue NAME --role {expected}`."""


class Unprocessable(FlywheelError):
    """{where} is {actual}: expected {expected}."""


class BlobTooLarge(FlywheelError):
    """The body has {actual}: expected at most {expected} bytes in one blob; put it in parts."""


class AppendTooLarge(FlywheelError):
    """The body has {actual}: expected at most {expected} bytes in one append, and nothing was written. Append fewer events at a time,
    put long texts into blobs with POST /v1/blobs, or have FLYWHEEL_APPEND_BYTES raised where `flywheel serve` runs."""


class BodyTooLarge(FlywheelError):
    """The body has {actual}: expected at most {expected} bytes here, and nothing was done. Send only the fields that this address takes;
    /openapi.json lists them."""


class TooManyBodies(FlywheelError):
    """{actual} bodies {what} are being received, as many as may be at once. Nothing was written. Send it again after a second, and fewer
    at a time, or have {setting} raised where `flywheel serve` runs."""


class TooManyStreams(FlywheelError):
    """{actual} streams {what} are open, as many as may be at once. Close one, or read pages of GET /v1/events instead."""


class TooManyRequests(FlywheelError):
    """{caller} sends more requests than {expected} a second, and nothing was done. Send it again in {seconds} seconds, and fewer at a
    time, or have FLYWHEEL_REQUESTS_PER_SECOND raised where `flywheel serve` runs."""


class TooManyBytes(FlywheelError):
    """The bodies of all callers hold {actual} bytes and this one adds more than fits: expected at most {expected} together. Nothing was
    written. Send it again after a second, or have FLYWHEEL_BODY_BYTES raised where `flywheel serve` runs."""


class BodyTooSlow(FlywheelError):
    """Only {actual} bytes of the body had arrived in time: expected all of it within {expected} seconds and one more for each {rate}
    bytes. Nothing was written. Send it again over a faster connection, or have FLYWHEEL_BODY_SECONDS raised."""


class BodyCut(FlywheelError):
    """The connection ended after {actual} bytes of the body: expected all of it. Nothing was written; send it again."""


class NotAcceptable(FlywheelError):
    """No answer of the kind {actual!r} is offered: expected one of {offered} in the Accept header."""


class UnreadableType(FlywheelError):
    """A body of the {what} {actual!r} cannot be read here: expected {expected}. Nothing was written."""


class BeyondRows(FlywheelError):
    """The range {actual!r} begins after the last byte: expected one that begins before byte {expected}, or none."""


class ReservedEvent(FlywheelError):
    """{actual} events are not taken over HTTP, so that nothing moves the champion or lets anyone in unseen: expected {expected}."""


class ForeignRunName(FlywheelError):
    """The {what} {actual!r} has a name that one of ours could have: expected one that begins with {expected!r}."""


class ForeignStream(FlywheelError):
    """{type} belongs to the stream {expected!r}, not to {actual!r}: append it there, so that reads as of a position find it."""


class AppendConflict(FlywheelError):
    """The stream {stream} is at version {actual}, expected {expected}: nothing was written. Read the stream and decide again."""


class AppendKeyReused(FlywheelError):
    """The key {key!r} was seen with {actual}, expected {expected}: nothing was written. Take a new key for new content."""


class NotReady(FlywheelError):
    """Not ready: {actual}. {way_out}"""
