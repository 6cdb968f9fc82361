"""How an agent acts in an environment that is no web site."""
