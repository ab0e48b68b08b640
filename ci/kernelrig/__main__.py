"""`python -m kernelrig TASK`: the same command as the console script; ci/invoke runs it."""

import gc

from kernelrig.cli.streams import leave_streams, open_streams
from kernelrig.proc import catch_signals, held_back


def main() -> None:
    """Run the command that was typed, and exit with its code."""
    # What is loaded stays: looking for garbage each 700 objects would be a fifteenth of a call.
    gc.set_threshold(10_000, *gc.get_threshold()[1:])
    open_streams()
    with catch_signals(), held_back():  # what comes while modules are loaded ends the task
        from kernelrig.cli.program import run_command

        try:
            run_command()
        finally:
            leave_streams()


if __name__ == "__main__":
    main()
