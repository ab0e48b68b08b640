"""The command `kernelrig`, and ci/invoke: Invoke's Program with our usage errors and exit codes."""

from __future__ import annotations

import contextlib
import inspect
import sys
import textwrap
from pathlib import Path

from invoke import Argument, Config, Exit, ParseError, Program
from invoke.parser import Parser, ParserContext

from kernelrig import __version__
from kernelrig.cli.command import JSON, answer, show_error
from kernelrig.cli.completion import (
    candidates,
    completion_script,
    typed_words,
    wanted_script,
)
from kernelrig.cli.project import use_root
from kernelrig.cli.rental_notice import say_at_the_end, say_billed
from kernelrig.cli.reply import Reply
from kernelrig.cli.rest import split_rest, use_rest
from kernelrig.cli.streams import STDOUT_ERRORS, stdout_failed, write_error, write_result
from kernelrig.cli.tasks import ns
from kernelrig.cli.usage import check_words, refuse_compiler_flags, spread_words, usage_error
from kernelrig.errors import ConfigError
from kernelrig.proc import catch_signals, let_through

_OFFERED = {"complete", "help", "list", "print-completion-script", "version"}
_READ_BY_INVOKE = {"debug", "list-depth", "list-format", "write-pyc"}
"""Options of Invoke's own: those that mean something here, and those that its Program reads."""
_OTHER_WORDS = {"attach": "collect"}
"""Words for a task beside its name: to follow a run is to bring its results."""
_MORE_WORDS = {
    **{"bench": "--also", "experiment": "--name", "init": "--program"},
    **{"record": "--also", "run": "--also"},
}
"""The tasks that take more words than they need, and the flag that takes those after the last."""
_FIRST_STEPS = (
    ("run prog.cu -- ARGUMENTS", "find the faults of a CUDA program, without a GPU and a project"),
    ("init prog.cu", "make a project of it; then remote-test, watch, build, check"),
    ("new NAME --template operation", "a function of tensors, compared with a reference in NumPy"),
    ("remote-add NAME USER@HOST:PORT", "a host with a GPU; then doctor and remote-test --remote"),
)
_TAKE_REST = ("run", "record")
"""The tasks that take words behind `--`."""


class KernelrigProgram(Program):
    """Reads no configuration file of Invoke: what a task does depends on its flags alone."""

    def core_args(self) -> list[Argument]:
        every = super().core_args()
        kept = [a for a in every if a.name in _OFFERED]
        # Without their short names: `-DNAME` is meant for a compiler, and no task has it.
        kept += [
            Argument(names=(a.name,), kind=a.kind, default=a.default)
            for a in every
            if a.name in _READ_BY_INVOKE
        ]
        root = "folder of the project; default: the nearest one upward with kernel/kernels.yaml"
        own = Argument(names=("json",), kind=bool, default=False, help=JSON)
        return [*kept, Argument(names=("root",), help=root), own]

    @property
    def options(self) -> ParserContext:
        """The options before a task, without those that only Invoke reads."""
        shown = [a for a in self.core_args() if a.name not in _READ_BY_INVOKE | {"complete"}]
        return ParserContext(args=shown)

    def create_config(self) -> None:
        self.config = Config(lazy=True)
        self.config.merge()

    def update_config(self, merge: bool = True) -> None:
        """Do nothing: no task of ours runs a shell command through Invoke."""

    def run(self, argv: list[str] | None = None, exit: bool = True) -> None:
        """Run `argv` and exit with the code of the one table (ci/kernelrig/errors)."""
        code = self.exit_code(sys.argv if argv is None else argv)
        code = code or write_result("")  # what Invoke printed is flushed too
        if exit:
            sys.exit(code)

    def exit_code(self, argv: list[str]) -> int:
        if (typed := typed_words(argv[1:])) is not None:
            return self._complete(argv, typed)
        say_at_the_end()
        try:
            return self._task_code(argv)
        finally:
            say_billed()

    def _task_code(self, argv: list[str]) -> int:
        argv, rest = split_rest(argv)
        use_rest(rest)
        as_json = "--json" in argv
        try:
            with catch_signals(), let_through():
                self._run_tasks(argv, rest)
        except ParseError as e:
            flags = {name: list(c.flags) for name, c in self._make_parser().contexts.items()}
            error = usage_error(e, argv[1:], flags, self.options.flags)
            return show_error("", error, as_json=as_json)
        except Exit as e:
            if e.message:
                write_error(f"{e.message}\n")
            return e.code
        except OSError as e:
            if e.filename is None and e.errno in STDOUT_ERRORS:
                return stdout_failed(e)
            return show_error("", e, as_json=as_json)
        except (KeyboardInterrupt, Exception) as e:
            return show_error("", e, as_json=as_json)
        return 0

    def _run_tasks(self, argv: list[str], rest: tuple[str, ...]) -> None:
        self.create_config()
        if (shell := wanted_script(argv[1:])) is not None:
            sys.stdout.write(completion_script(shell))
            return
        check_words(argv[1:])
        try:
            self.parse_core(argv)
        except ValueError as e:  # only options that Invoke's Program reads have another type
            raise ConfigError(f"the options before the task cannot be read: {e}") from e
        self.parse_collection()
        self.parse_tasks()
        self._check_rest(rest)
        self._take_root()
        self.parse_cleanup()
        self.execute()

    def _check_rest(self, rest: tuple[str, ...]) -> None:
        if rest and not {parsed.name for parsed in self.tasks} & set(_TAKE_REST):
            names = " and ".join(f"`{name}`" for name in _TAKE_REST)
            raise ConfigError(f"only {names} take words behind --", "leave them out")

    def _take_root(self) -> None:
        if self.args.root.value:
            use_root(Path(self.args.root.value))

    def _complete(self, argv: list[str], typed: list[str]) -> int:
        with contextlib.suppress(Exception):
            self.create_config()
            self.parse_core(argv)
            self._take_root()
            self.parse_collection()
            tasks = {context.name: context for context in self._make_parser().contexts.values()}
            for candidate in candidates(typed, self.options, tasks):
                write_result(f"{candidate}\n")
        return 0

    def parse_core(self, argv: list[str] | None) -> None:
        writes = sys.dont_write_bytecode
        super().parse_core(argv)
        # Invoke turns .pyc files off, for tasks.py. Those of a package halve the next start.
        sys.dont_write_bytecode = writes

    def parse_tasks(self) -> None:
        contexts = self._make_parser().contexts
        words = self.core.unparsed
        if words and words[0] in contexts and "--help" in words:
            # Invoke would take --help for the value of a missing positional argument.
            self.args.help.value = contexts[words[0]].name
            words.clear()
        for context in contexts.values():
            refuse_compiler_flags(words, context)
        for task, flag in _MORE_WORDS.items():
            self.core.unparsed[:] = spread_words(self.core.unparsed, contexts[task], flag)
        super().parse_tasks()
        if self.args.json.value:
            for parsed in self.tasks:
                parsed.args.json.value = True
        if len(self.tasks) > 1 and any(parsed.args.json.value for parsed in self.tasks):
            raise ParseError("--json shows the answer of one task")

    def _make_parser(self) -> Parser:
        """Return Invoke's parser; it knows `remote_test` for `remote-test`, too, and `attach`."""
        parser = super()._make_parser()
        for name in [n for n in parser.contexts if "-" in n]:
            parser.contexts.alias(name.replace("-", "_"), to=name)  # type: ignore[no-untyped-call]
        for word, task in _OTHER_WORDS.items():
            parser.contexts.alias(word, to=task)  # type: ignore[no-untyped-call]
        return parser

    def no_tasks_given(self) -> None:
        self.list_tasks()
        self._print_first_steps()
        raise Exit

    def _print_first_steps(self) -> None:
        """Below the tasks, whose list is longer than a screen."""
        sys.stdout.write("To begin with:\n\n")
        self.print_columns([(f"{self.binary} {words}", text) for words, text in _FIRST_STEPS])

    def list_tasks(self) -> None:
        if self.args.json.value:
            summaries = {name: text or "" for name, text in self._make_pairs(self.collection)}
            raise Exit(code=answer("list", lambda: Reply(tasks=summaries), as_json=True))
        super().list_tasks()

    def task_list_opener(self, extra: str = "") -> str:
        return "Tasks"

    def print_task_help(self, name: str) -> None:
        context = self.parser.contexts[name]
        words = [a.name.upper() for a in context.positional_args if a.kind is not list]
        rest = ["[-- ARGUMENTS]"] if name in _TAKE_REST else []
        usage = " ".join([self.binary, str(context.name), *words, "[--flags]", *rest])
        about = textwrap.indent(inspect.getdoc(self.collection[name]) or "", self.leading_indent)
        sys.stdout.write(f"Usage: {usage}\n\n{about}\n\nFlags:\n\n")
        self.print_columns(context.help_tuples())

    def print_help(self) -> None:
        sys.stdout.write(f"Usage: {self.binary} [--options] TASK [--flags]\n\nOptions:\n\n")
        self.print_columns(self.options.help_tuples())
        self.list_tasks()
        self._print_first_steps()


def run_command() -> None:
    """Run the command of `sys.argv`, and exit with its code."""
    KernelrigProgram(__version__, ns, name="kernelrig", binary="kernelrig").run()
