"""Rows of datasets: which runs a query takes, and the rows that they make. Pure."""
