"""`python -m multicause`, and the command `multicause`."""

import signal
import sys


def run() -> None:
    """Ctrl-C outside of any command, while modules are imported for instance, is answered like any other."""
    try:
        from multicause.cli import main

        try:
            main(prog_name="multicause")
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is said: Python only shuts down
    except KeyboardInterrupt:
        sys.exit("Aborted!")


if __name__ == "__main__":
    run()
