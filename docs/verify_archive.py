"""Check a folder of archived segments from its files alone: python verify_archive.py FOLDER [--head CHAIN_HEX].

It needs Python 3.11 and pyarrow, and nothing of Flywheel. archive.md says what it checks and why that is enough.
Exit codes: 0 all is sound, 1 something is damaged (the first thing found is named), 64 wrong usage.
"""

import argparse
import collections
import datetime as dt
import hashlib
import heapq
import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ENVELOPE = "position,stream,version,at,actor,cause,type,schema_version,payload,digest,chain"
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
KINDS = {"text": str, "integer": int, "boolean": bool}


class Damaged(Exception):
    """What was found, and what was expected."""


def same(what, actual, expected):
    """Refuse what is not as it should be."""
    if actual != expected or type(actual) is not type(expected):
        raise Damaged(f"{what} is {str(actual)[:100]}, expected {str(expected)[:100]}")


def canonical(value):
    """RFC 8785 for what a log may hold: keys by UTF-16 code units, no floats, integers within 2^53."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{canonical(key)}:{canonical(value[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, float) or (isinstance(value, int) and abs(value) >= 2**53):
        raise Damaged(f"the number {value} may not be in a log")
    return json.dumps(value, ensure_ascii=False)


def sha256(*parts):
    """The SHA-256 of bytes one after another."""
    return hashlib.sha256(b"".join(parts)).digest()


def digest(row, payload):
    """What an event says, who said it, and what caused it."""
    said = {name: row[name] for name in ("actor", "cause", "schema_version", "type")} | {"payload": payload}
    return sha256(canonical(said).encode())


def link(previous, row):
    """The chain value of a row that follows `previous`."""
    stream, at = row["stream"].encode(), (row["at"] - EPOCH) // dt.timedelta(microseconds=1)
    place, version, at = (n.to_bytes(8, "big", signed=True) for n in (row["position"], row["version"], at))
    return sha256(previous, place, len(stream).to_bytes(4, "big"), stream, version, at, row["digest"])


def merkle(leaves):
    """The root of RFC 6962 over leaves in order, of which there is at least one."""
    if len(leaves) == 1:
        return sha256(b"\0", leaves[0])
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return sha256(b"\1", merkle(leaves[:split]), merkle(leaves[split:]))


def rows_of(folder, file):
    """The rows of one file, once its bytes, its columns and its counts were checked."""
    path = folder / file["name"]
    with path.open("rb") as opened:
        same(f"the SHA-256 of {path}", hashlib.file_digest(opened, "sha256").hexdigest(), file["sha256"])
    table = pq.ParquetFile(path)
    same(f"the columns of {path}", sorted(table.schema_arrow.names), sorted([*ENVELOPE.split(","), *file["columns"]]))
    types = collections.Counter()
    for batch in table.iter_batches(batch_size=2_000):
        for row in batch.to_pylist():
            types[row["type"]] += 1
            yield row, file["columns"]
    same(f"the rows of {path}", (types.total(), dict(types)), (file["rows"], file["types"]))


def check_columns(row, payload, columns):
    """Each typed column holds what the payload has at its path, or nothing where that is of another kind."""
    for name, kind in columns.items():
        value = payload
        for part in name.removeprefix("payload.").split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            value = canonical(value) if kind == "json" else value if type(value) is KINDS[kind] else None
        same(f"{name} at position {row['position']}", row[name], value)


def check_segment(folder, position, previous):
    """Check one segment that begins after `position`; its last position and the chain there."""
    said = json.loads((folder / "segment.json").read_text("utf-8"))
    same(f"the format of {folder}", (said["format"], said["format_version"]), ("flywheel-segment", 1))
    same(f"where {folder} begins", (said["first"], said["previous"]), (position + 1, previous.hex()))
    same(f"the name of {folder}", folder.name, f"{said['first']}-{said['last']}")
    chains, times, files = [], [], [rows_of(folder, file) for file in said["files"]]
    for row, columns in heapq.merge(*files, key=lambda item: item[0]["position"]):
        position += 1
        same("the position of an event", row["position"], position)
        payload = json.loads(row["payload"])
        same(f"the payload's text at {position}", row["payload"], canonical(payload))
        same(f"the digest at {position}", row["digest"].hex(), digest(row, payload).hex())
        previous = link(previous, row)
        same(f"the chain at {position}", row["chain"].hex(), previous.hex())
        check_columns(row, payload, columns)
        chains.append(previous)
        times = [*times[:1], row["at"]] if times else [row["at"]] * 2
    ended = position, len(chains), previous.hex()
    same(f"where {folder} ends", ended, (said["last"], said["events"], said["chain"]))
    same(f"the times of {folder}", times, [dt.datetime.fromisoformat(said[at]) for at in ("first_at", "last_at")])
    same(f"the root of {folder}", merkle(chains).hex(), said["root"])
    return position, previous


def main():
    """Check every segment of a folder in order, the first of which begins at position 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a project's folder, which holds a folder for each segment")
    parser.add_argument("--head", metavar="CHAIN_HEX", help="the chain value that the last segment must end with")
    try:
        asked = parser.parse_args()
        segments = sorted(tuple(map(int, f.name.split("-"))) for f in asked.folder.iterdir() if f.name[0] != ".")
    except (SystemExit, OSError, ValueError) as error:
        if not isinstance(error, SystemExit):
            sys.stderr.write(f"expected a folder that holds segments alone, named <first>-<last>: {error}\n")
        return 64 if str(error) != "0" else 0
    position, previous = 0, bytes(32)
    try:
        for name in ("-".join(map(str, segment)) for segment in segments):
            position, previous = check_segment(asked.folder / name, position, previous)
            sys.stdout.write(f"{name} is sound\n")
        same("the chain at the end", previous.hex(), (asked.head or previous.hex()).lower())
    except (Damaged, LookupError, TypeError, ValueError, AttributeError, OSError, pa.ArrowException) as error:
        sys.stderr.write(f"damaged after position {position}: {error or type(error).__name__}\n")
        return 1
    sys.stdout.write(f"{position} events in {len(segments)} segments verify; chain {previous.hex()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
