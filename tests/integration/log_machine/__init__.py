"""Everything that can be done to a log, in rules that the test of the state machine puts in any order."""
