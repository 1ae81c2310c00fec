"""`python -m multicause`, and the command `multicause`."""

import sys


def run() -> None:
    """Ctrl-C while the command line is still being imported is answered like any other."""
    try:
        from multicause.cli import main
    except KeyboardInterrupt:
        sys.exit("Aborted!")
    main(prog_name="multicause")


if __name__ == "__main__":
    run()
