"""The dashboard: pages over the queries that REST uses, rendered on the server, with a session for each browser."""
