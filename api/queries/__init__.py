"""Queries: what the log says of one resource, as typed values. REST, commands and pages all read through them."""
