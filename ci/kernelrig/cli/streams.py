"""stdin, stdout and stderr of the command, whatever the caller made of them.

Any of them may be closed, a terminal that has gone, a pipe without a reader, a full disk, or in an
encoding that lacks a letter. None of that may end a run, or change what its verdict was.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys

from kernelrig.errors import CiError
from kernelrig.terminal.command_name import as_typed
from kernelrig.terminal.paint import for_stdout
from kernelrig.terminal.text import log_json, log_text

_GONE = (errno.EPIPE, errno.EIO)
"""Nobody reads it: a pipe's reader ended, or the terminal was closed. There is no one to tell."""

STDOUT_ERRORS = (*_GONE, errno.EBADF, errno.ENOSPC)
"""What a write to stdout fails with; Invoke prints lists and help itself."""


def open_streams() -> None:
    """Give each stream that is closed the null device, and each letter a form to be written in.

    Files opened later would get the number of a closed stream, and what is printed would go there.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def leave_streams() -> None:
    """Drop what a stream did not take: the interpreter would exit with 120 when it tries again."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def write_result(text: str) -> int:
    """Write `text` to stdout and return 0, or the exit code where it cannot be written.

    Whatever it holds is escaped here, before it is coloured: a caller cannot forget it.
    """
    return _write(for_stdout(log_text(as_typed(text))))


def clear_screen() -> None:
    """Begin a new screen, where stdout is a terminal."""
    with contextlib.suppress(OSError):
        if sys.stdout.isatty():
            sys.stdout.write("\x1b[H\x1b[2J\x1b[3J")


def write_document(text: str) -> int:
    """Write a JSON document to stdout as write_result does text."""
    return _write(log_json(text))


def _write(text: str) -> int:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as e:
        return stdout_failed(e)
    return 0


def write_error(text: str) -> None:
    """Write `text` to stderr, escaped as write_result does, if that can be."""
    with contextlib.suppress(OSError):
        sys.stderr.write(log_text(as_typed(text)))
        sys.stderr.flush()


def stdout_failed(error: OSError) -> int:
    """Return the exit code for a stdout that takes no more, of which a full disk is said."""
    # What is still buffered would fail again when the interpreter flushes it at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if error.errno not in _GONE:
        why = os.strerror(error.errno or 0).lower()
        write_error(f"the result cannot be written to stdout: {why}\n")
    return CiError.exit_code
