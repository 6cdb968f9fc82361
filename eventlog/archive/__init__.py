"""Old positions as Parquet: one folder a segment, one file an event family, digests chained to the log."""
