"""Tools for agents over the Model Context Protocol: they read the log through the queries, and change nothing."""
