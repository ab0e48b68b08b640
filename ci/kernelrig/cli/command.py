"""A task: its body returns a Reply; here that becomes output, a JSON document and an exit code."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from invoke import Argument, Context, Exit, Task

from kernelrig.cli.project import project_root
from kernelrig.cli.rental_notice import say_behind_task
from kernelrig.cli.reply import Reply
from kernelrig.cli.shared_flags import SHARED
from kernelrig.cli.streams import (
    stdout_failed,
    write_document,
    write_error,
    write_result,
)
from kernelrig.errors import CiError, IncompleteError, noted_run
from kernelrig.proc import catch_signals, held_back, let_through
from kernelrig.terminal.log import say

JSON = "print one JSON document in place of text (schemas/answer.schema.json)"


class Command(Task[Callable[..., None]]):
    """A task that keeps `help`: Invoke's get_arguments removes each entry that it has read."""

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:
        words = dict(self.help)
        try:
            return super().get_arguments(ignore_unknown_help)
        finally:
            self.help = words


def command(
    *, name: str = "", help: Mapping[str, str] | None = None, iterable: Sequence[str] = ()
) -> Callable[[Callable[..., Reply]], Command]:
    """Make a task of a function that takes the flags and returns a Reply.

    `help` is of the flags that are the task's own, or mean something else than in others. Every
    task gets the flag --json.
    """

    def wrap(body: Callable[..., Reply]) -> Command:
        called = name or body.__name__.replace("_", "-")

        @functools.wraps(body)
        def run(c: Context, *, json: bool = False, **flags: object) -> None:
            try:
                if code := answer(called, functools.partial(body, **flags), as_json=json):
                    raise Exit(code=code)
            finally:
                say_behind_task()

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        own = inspect.signature(body).parameters
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter("c", kind),
                *own.values(),
                inspect.Parameter("json", kind, default=False),
            ]
        )
        shared = {flag: SHARED[flag] for flag in own if flag in SHARED}
        words = {**shared, **(help or {}), "json": JSON}
        return Command(run, name=called, help=words, iterable=list(iterable))

    return wrap


def answer(called: str, body: Callable[[], Reply], *, as_json: bool = False) -> int:
    """Run a task's body, print its reply or its error, and return the exit code."""
    with catch_signals(), held_back():  # an answer is printed once and whole
        try:
            with let_through(), _stdout_kept_free(as_json):
                reply = body()
        except BrokenPipeError as e:
            return stdout_failed(e)
        except (KeyboardInterrupt, Exception) as e:
            return show_error(called, e, as_json=as_json)
        if as_json:
            from kernelrig.cli.document import reply_document

            written = write_document(reply_document(called, reply))
        else:
            text = reply.text
            written = write_result(text if not text or text.endswith("\n") else f"{text}\n")
        return reply.code or written


def show_error(called: str, error: BaseException, *, as_json: bool) -> int:
    """Print what ended a task and return the exit code: a sentence on stderr, or the document."""
    said, folder = _in_words(error), noted_run(error)
    if as_json:
        from kernelrig.cli.document import error_document

        write_document(error_document(called, said, folder))
        return said.exit_code
    from kernelrig.report import describe_error

    if folder:
        say(f"report: {folder}/summary.md")
    write_error(f"{describe_error(said, folder)}\n")
    return said.exit_code


def _in_words(error: BaseException) -> CiError:
    """Return the error to show; the traceback of an unexpected exception goes to a file."""
    if isinstance(error, CiError):
        return error
    if not isinstance(error, Exception):
        return IncompleteError(str(error) or "interrupted by the user")
    from kernelrig.cli.crash import record_crash

    root = None
    with contextlib.suppress(CiError):
        root = project_root()
    return record_crash(root, error)


@contextlib.contextmanager
def _stdout_kept_free(as_json: bool) -> Iterator[None]:
    """Send what a body prints while it works to stderr, where stdout is for one document."""
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        yield
