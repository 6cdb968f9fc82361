"""What others meet: traces in, rows of datasets out, and the first page of the dashboard."""
