"""Sign the head of the log, and check signed heads, with keys from the keys folder."""

from __future__ import annotations

import os
import secrets
from datetime import datetime
from functools import partial
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from pydantic import ValidationError

from eventlog.append_keys import key_chain_at
from eventlog.errors import NotASignature
from eventlog.signature import LogHead, Signed, check_log_head, check_signature, sign
from eventlog.store import START, Position
from eventlog.verification import Opening, chain_at, store_on_one_connection

from ..embedded.record import sync_folder, write_private
from ..errors import BadKeyFile, NothingToSign, NoTrustedKey
from ..house import House, application_url

PRIVATE, PUBLIC, LAST = "signing.key", "signing.pub", "last-signature.json"


def store_opener(house: House) -> Opening:
    """Description with which another process opens this project's store."""
    return partial(
        store_on_one_connection, application_url(house.settings), house.settings.project, house.settings.archive_folder
    )


def log_up_to(house: House, head: Position) -> LogHead:
    """The log up to `head`, to sign or to compare with a signed head."""
    keys = partial(key_chain_at, house.engine)
    return LogHead(house.settings.project, head, partial(chain_at, house.store), keys)


def to_sign(house: House) -> tuple[LogHead, Position]:
    """The log with the head to sign, and the position signed last (or the start).

    Raises NothingToSign, NotASignature, and ForeignLog, LogTruncated, LogRewritten or KeysRewritten if the log does not
    extend the head signed last.
    """
    last = house.settings.key_folder / LAST
    now = log_up_to(house, house.store.head())
    if now.head == START:
        raise NothingToSign
    if not last.exists():
        return now, START
    signed = read_signed(last)
    check_log_head(signed, now)
    return now, Position(signed.position)


def sign_head(house: House, now: LogHead, at: datetime) -> Signed:
    """Sign the head returned by `to_sign` and store it as the last signed one. Raises BadKeyFile, OSError."""
    folder = house.settings.key_folder
    signed = sign(now, at, private_key(folder))
    write_private(folder / LAST, signed_text(signed))
    return signed


def check_signed(house: House, file: Path, public_key: Path | None, head: Position) -> Signed:
    """Check a signed head: signed by the trusted key and still part of the log up to `head`. Returns it.

    Raises NotASignature, NoTrustedKey, BadKeyFile, ForeignKey, SignatureBroken, ForeignLog, LogTruncated, LogRewritten,
    KeysRewritten.
    """
    signed = read_signed(file)
    check_signature(signed, trusted_key(public_key or house.settings.key_folder / PUBLIC))
    check_log_head(signed, log_up_to(house, head))
    return signed


def read_signed(file: Path) -> Signed:
    """Read a signed statement from a file. Raises NotASignature, OSError."""
    try:
        return Signed.model_validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise NotASignature(file=file, actual=f"{where}: {first['msg']}" if where else first["msg"]) from error


def signed_text(signed: Signed) -> str:
    """A signed statement as a JSON object with one field per line."""
    return signed.model_dump_json(indent=2, exclude_none=True) + "\n"


def write_signed(signed: Signed, file: Path) -> None:
    """Write a signed statement to a file atomically. Raises OSError."""
    partial_file = file.with_name(file.name + ".partial")
    partial_file.write_text(signed_text(signed), "utf-8")
    partial_file.replace(file)


def trusted_key(file: Path) -> Ed25519PublicKey:
    """The public key in a file. Raises NoTrustedKey, BadKeyFile."""
    try:
        key = load_pem_public_key(file.read_bytes())
    except FileNotFoundError as error:
        raise NoTrustedKey(expected=file) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BadKeyFile(file=file, actual="no public key can be read", expected="a public key") from error
    if not isinstance(key, Ed25519PublicKey):
        raise BadKeyFile(file=file, actual=f"a {type(key).__name__}", expected="a public key")
    return key


def private_key(folder: Path) -> Ed25519PrivateKey:
    """The project's signing key, created at first use. Raises BadKeyFile, OSError."""
    file = folder / PRIVATE
    if not file.exists():
        _make(folder)
    try:
        key = load_pem_private_key(file.read_bytes(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadKeyFile(file=file, actual="no private key can be read", expected="a private key") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise BadKeyFile(file=file, actual=f"a {type(key).__name__}", expected="a private key")
    _publish(folder, key)
    return key


def _make(folder: Path) -> None:
    """Create a key file; if several processes do so at once, the first key stays."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = folder / f".{PRIVATE}.{secrets.token_hex(8)}"
    pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_private(made, pem.decode())
    try:
        os.link(made, folder / PRIVATE)
    except FileExistsError:
        return
    finally:
        made.unlink()
        sync_folder(folder)


def _publish(folder: Path, key: Ed25519PrivateKey) -> None:
    """Write the public key beside the private one."""
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    file = folder / PUBLIC
    if not file.exists() or file.read_text("utf-8", errors="replace") != pem:
        write_private(file, pem, 0o644)
