"""Entry points: commands and REST. The only package that may import all the others."""
