"""`python -m multicause.cli`."""

from multicause.cli import main

main(prog_name="multicause")
