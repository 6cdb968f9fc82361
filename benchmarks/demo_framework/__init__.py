"""`make demo-framework`: an agent of a public framework, in an environment of its own, improved by memory alone."""
