"""Speed and size of the log, against plain implementations and another library, measured in one run."""
