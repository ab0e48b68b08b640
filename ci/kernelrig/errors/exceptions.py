"""The exceptions of runs that cannot go on.

CiError               any of them: one sentence, one hint, one exit code
├── ConfigError       2  a file or a flag of the user's is wrong
├── BuildError        3  the kernel does not compile
├── RemoteError       4  the host, the link or our own machinery failed
├── ProtocolError     5  the output of a tool, or a file, cannot be read
└── IncompleteError   6  results are missing; `invoke collect RUN` fetches them

Interrupted is no CiError: it ends what it finds, as Ctrl-C does, and means exit code 6.
A wrong, racy or slow kernel raises nothing: it gets a Verdict (kernelrig.model).
"""

from __future__ import annotations

import errno
import os
import shutil
from typing import ClassVar

FREE_SOME = "free some: `invoke clean`, or remove artifacts/builds"
"""What to do when the disk is full."""

_PERMIT = "give this user write permission"
_FIXES = {
    errno.ENOSPC: FREE_SOME,
    errno.EDQUOT: FREE_SOME,
    errno.EROFS: _PERMIT,
    errno.EACCES: _PERMIT,
    errno.EPERM: _PERMIT,
    errno.EEXIST: "move what is in its place: a file, or a link that leads to nothing",
    errno.ENOTDIR: "move the file that is in the place of a folder",
    errno.ENAMETOOLONG: "use a shorter name, or a shorter path to the project",
    errno.ELOOP: "correct the link, which leads to itself",
    errno.EFBIG: "raise the limit of a file's size (`ulimit -f`)",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`)",
    errno.ENFILE: "close what holds files open on this machine",
    errno.ENOMEM: "raise the limit of memory (`ulimit -v`), or end other programs",
}
"""Error numbers of a system that is not usable as it is, and the suggested fix."""

_NAMELESS = {
    errno.ENOSPC: "cannot write under artifacts",
    errno.EDQUOT: "cannot write under artifacts",
    errno.EFBIG: "cannot write under artifacts",
    errno.EMFILE: "cannot open a file",
    errno.ENFILE: "cannot open a file",
    errno.ENOMEM: "cannot go on",
}
"""What failed, for error numbers that tell enough without a file's name."""


class CiError(Exception):
    """A run cannot go on: `message` says why, `hint` what to do next."""

    exit_code: ClassVar[int] = 4

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class ConfigError(CiError):
    exit_code = 2


class BuildError(CiError):
    """The compiler refused the kernel; `details` is its own output, file:line first."""

    exit_code = 3

    def __init__(self, message: str, hint: str = "", *, details: str = "") -> None:
        super().__init__(message, hint)
        self.details = details


class RemoteError(CiError):
    exit_code = 4


class ProtocolError(CiError):
    exit_code = 5


class IncompleteError(CiError):
    exit_code = 6


INTERRUPTED = "interrupted by"
"""How the text of every interruption begins."""


class Interrupted(KeyboardInterrupt):
    """A signal asked for the end; its text says which."""


def refused_by_system(error: OSError | MemoryError) -> CiError | None:
    """Return the error to show if the disk is full or not writable, or a limit of this process is
    reached; None for any other OSError.
    """
    if isinstance(error, MemoryError):
        error = OSError(errno.ENOMEM, "")
    name, code = error.filename, error.errno
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list):
        # copytree's list of (from, to, why) for each file, where `why` is already a text.
        _, name, why = error.args[0][0]
        code = next((n for n in _FIXES if f"[Errno {n}]" in str(why)), None)
    if code not in _FIXES or not (name or code in _NAMELESS):
        return None
    what = f"cannot use {name}" if name else _NAMELESS[code]
    return CiError(f"{what}: {os.strerror(code).lower()}", _FIXES[code])


_RUN = "run directory: "


def note_run(error: BaseException, folder: str) -> None:
    """Add the run directory to the exception that ends a run; a traceback shows it too."""
    error.add_note(_RUN + folder)


def noted_run(error: BaseException) -> str:
    """Return the run directory noted on `error`, empty if there is none."""
    notes: list[str] = getattr(error, "__notes__", [])
    return next((note.removeprefix(_RUN) for note in notes if note.startswith(_RUN)), "")
