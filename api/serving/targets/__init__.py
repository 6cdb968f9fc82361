"""Deploy targets: the files with which other platforms serve a base and its challengers."""
