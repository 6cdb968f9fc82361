"""The archive: old positions as Parquet, one folder for each segment, one file for each event family."""
