"""Blob stores: content-addressed bytes, stored once, and erasable without changing the log."""

from __future__ import annotations

from .contract import Blob, BlobStore, Inventory, Listed
from .memory import MemoryBlobs
from .postgres import PostgresBlobs

__all__ = ["Blob", "BlobStore", "Inventory", "Listed", "MemoryBlobs", "PostgresBlobs"]
