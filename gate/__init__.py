"""The promotion gate: compares the recorded runs of a champion and a challenger and decides a verdict. Pure."""
