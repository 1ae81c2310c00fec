"""`python -m multicause`."""

from multicause.cli import main

main(prog_name="multicause")
