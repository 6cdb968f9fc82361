"""Errors of the route of traces as OTLP wants them: a google.rpc.Status, in protobuf or JSON like the request."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from projections.engine.decoders import decoder_of

from .problems import SERVER_ERROR, answer_defect

TRACES: Final = "/v1/traces"
PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"

_ERROR: Final = 400
_CODES: Final[Mapping[int, int]] = {400: 3, 401: 16, 403: 7, 404: 5, 408: 4, 409: 10, 413: 8, 429: 8, 503: 14}
"""The code of google.rpc for a status of HTTP."""

_INVALID, _INTERNAL = 3, 13


def status_of(description: str) -> dict[str, Any]:
    """The entry for the status of an error in the `responses` of the route of traces."""
    properties = {
        "code": {"type": "integer", "description": "of google.rpc.Code"},
        "message": {"type": "string"},
        "error": {"$ref": "#/components/schemas/Fault"},
    }
    schema = {"type": "object", "required": ["code", "message"], "properties": properties}
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {"description": description, "content": {JSON: {"schema": schema}, PROTOBUF: binary}}


class TraceErrors:
    """Middleware that turns a problem that the route of traces answers into a google.rpc.Status."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle the request; of an error, hold the answer back until its body is known."""
        if scope["type"] != "http" or scope["path"] != TRACES:
            await self._app(scope, receive, send)
            return
        media = Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()
        begun: list[Message] = []
        parts: list[bytes] = []
        passed = False

        async def send_status(message: Message) -> None:
            nonlocal passed
            if message["type"] == "http.response.start" and message["status"] >= _ERROR:
                begun.append(message)
            elif begun and message["type"] == "http.response.body":
                parts.append(message.get("body", b""))
                if not message.get("more_body", False):
                    await _send_whole(begun[0], b"".join(parts), media, send)
            else:
                passed = True
                await send(message)

        try:
            await self._app(scope, receive, send_status)
        except Exception as error:  # nothing below answers what nobody foresaw; it goes on, to the server's log
            if not passed:
                answer = await answer_defect(Request(scope), error)
                start = {"type": "http.response.start", "status": SERVER_ERROR, "headers": answer.raw_headers}
                await _send_whole(start, bytes(answer.body), media, send)
            raise


async def _send_whole(start: Message, problem: bytes, media: str, send: Send) -> None:
    body = trace_error(start["status"], problem, media)
    headers = MutableHeaders(scope=start)
    headers["Content-Type"], headers["Content-Length"] = PROTOBUF if media == PROTOBUF else JSON, str(len(body))
    await send(start)
    await send({"type": "http.response.body", "body": body, "more_body": False})


def trace_error(status: int, problem: bytes, media: str) -> bytes:
    """A problem as a google.rpc.Status; in JSON with its `error` besides, which readers of a Status pass over."""
    found: dict[str, Any] = decoder_of(dict[str, Any]).decode(problem)
    code, text = _CODES.get(status, _INVALID if status < SERVER_ERROR else _INTERNAL), str(found.get("detail", ""))
    if media == PROTOBUF:
        return bytes(_status_type()(code=code, message=text).SerializeToString())
    return msgspec.json.encode({"code": code, "message": text, "error": found.get("error")})


@cache
def _status_type() -> Any:
    """The class of google.rpc.Status, of which the fields `code` and `message` are used."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    file = FileDescriptorProto(name="google/rpc/status.proto", package="google.rpc", syntax="proto3")
    fields = file.message_type.add(name="Status").field
    label = FieldDescriptorProto.LABEL_OPTIONAL
    fields.add(name="code", number=1, type=FieldDescriptorProto.TYPE_INT32, label=label)
    fields.add(name="message", number=2, type=FieldDescriptorProto.TYPE_STRING, label=label)
    pool = DescriptorPool()  # one of its own: another library may bring the whole of google.rpc
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("google.rpc.Status"))
