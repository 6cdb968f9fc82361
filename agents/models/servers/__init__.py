"""Model servers outside this process: what they are started with, and the adapters that they load."""
