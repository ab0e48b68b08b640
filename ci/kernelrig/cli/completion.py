"""Completion of a command line by the tab key, for bash and zsh.

The shell asks `COMMAND --complete -- WORDS`, the last of which is the one being typed, and gets a
candidate a line. After any error the answer is empty: the shell then completes file names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from invoke.parser import ParserContext

from kernelrig.cli.project import project_root
from kernelrig.errors import ConfigError

_BASH = """\
_kernelrig_complete() {
    local candidate
    COMPREPLY=()
    while IFS= read -r candidate; do
        COMPREPLY+=("$candidate")
    done < <("${COMP_WORDS[0]}" --complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _kernelrig_complete kernelrig ci/invoke ./ci/invoke
"""
_ZSH = """\
_kernelrig_complete() {
    local -a candidates
    candidates=("${(@f)$("${words[1]}" --complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    candidates=("${(@)candidates:#}")
    if (( ${#candidates} )); then compadd -a candidates; else _files; fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
compdef _kernelrig_complete kernelrig ci/invoke ./ci/invoke
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH}
_ASK, _PRINT = "--complete", "--print-completion-script"


def completion_script(shell: str) -> str:
    """Return what a shell evaluates: `eval "$(ci/invoke --print-completion-script bash)"`."""
    if shell not in SCRIPTS:
        raise ConfigError(f"{_PRINT} takes {' or '.join(SCRIPTS)}, not '{shell}'")
    return SCRIPTS[shell]


def wanted_script(words: Sequence[str]) -> str | None:
    """Return the shell whose script a command line asks for, None if it asks for none."""
    for i, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag == _PRINT:
            return value if equals else next(iter(words[i + 1 :]), "")
    return None


def typed_words(words: Sequence[str]) -> list[str] | None:
    """Return the words to be completed; None where a command line asks for no completion."""
    head = words[: words.index("--")] if "--" in words else []
    return list(words[len(head) + 1 :]) or [""] if _ASK in head else None


def candidates(
    typed: Sequence[str], options: ParserContext, tasks: Mapping[str, ParserContext]
) -> list[str]:
    """Return the words that the last of `typed` may be completed to, given those before it."""
    *before, word = typed
    # bash splits `--flag=value` at the `=`.
    if word == "=":
        word = ""
    elif before[-1:] == ["="]:
        before.pop()
    flag, equals, value = word.partition("=")
    if equals and flag.startswith("--"):
        before, word = [*before, flag], value
    task, waiting = _context(before, options, tasks)
    if waiting:
        found = _values(waiting)
        prefix = f"{flag}=" if equals and flag.startswith("--") else ""
        return [f"{prefix}{name}" for name in found if name.startswith(word)]
    if word.startswith("-"):
        known = task or options
        long = [name for name in known.flags if name.startswith("--")]
        return sorted(name for name in long if name.startswith(word))
    names = list(_POSITIONAL.get(str(task.name), tuple)()) if task else []
    return sorted(name for name in names or tasks if name.startswith(word))


def _context(
    words: Sequence[str], options: ParserContext, tasks: Mapping[str, ParserContext]
) -> tuple[ParserContext | None, str]:
    """Return the task that the next word is for, and the flag whose value it is."""
    task: ParserContext | None = None
    waiting = ""
    for word in words:
        if waiting:
            waiting = ""
        elif word.startswith("-"):
            known = task.flags.get(word) if task else None
            argument = known or options.flags.get(word)
            # The values of --help and --list are optional.
            takes = argument is not None and argument.takes_value and not argument.optional
            waiting = word if takes else ""
        elif task is None and word.replace("_", "-") in tasks:
            task = tasks[word.replace("_", "-")]
    return task, waiting


def _values(flag: str) -> list[str]:
    values = _OF_FLAG.get(flag.lstrip("-").replace("_", "-"))
    if values is None:
        return []
    with contextlib.suppress(Exception):  # a file that is wrong is the next task's to report
        return sorted(set(values()))
    return []


def _kernels() -> Iterable[str]:
    from kernelrig.config import load_kernels

    return load_kernels(project_root())


def _archs() -> Iterable[str]:
    from kernelrig.config import load_kernels

    return [arch for kernel in load_kernels(project_root()).values() for arch in kernel.sources]


def _variants() -> Iterable[str]:
    from kernelrig.config import load_kernels

    return [name for kernel in load_kernels(project_root()).values() for name in kernel.variants]


def _cases() -> Iterable[str]:
    from kernelrig.config import load_kernels

    return [name for kernel in load_kernels(project_root()).values() for name in kernel.cases]


def _remotes() -> Iterable[str]:
    from kernelrig.config import load_remotes

    return load_remotes(project_root())


def _plans() -> Iterable[str]:
    from kernelrig.config.load import OWN_PLANS

    folders = (OWN_PLANS, project_root() / "ci/plans")
    return [path.stem for folder in folders for path in folder.glob("*.yaml")]


def _named(pattern: str) -> Callable[[], list[str]]:
    def find() -> list[str]:
        return [path.stem for path in project_root().glob(pattern)]

    return find


def _builds() -> Iterable[str]:
    root = project_root()
    folders = [path.parent for path in root.glob("artifacts/builds/*/build.json")]
    near = Path.cwd() == root
    return [str(folder.relative_to(root) if near else folder) for folder in folders]


_runs = _named("artifacts/runs/*")
_experiments = _named("kernel/experiments/*.md")


def _experiment_words() -> Iterable[str]:
    """Return the actions of `experiment`, and the names that they are about."""
    return ["close", "list", "new", "park", *_experiments()]


# Flags, then tasks with positional arguments: what lists the values of each.
_OF_FLAG: Mapping[str, Callable[[], Iterable[str]]] = {
    "arch": _archs,
    "baseline": _runs,
    "build": _builds,
    "case": _cases,
    "kernel": _kernels,
    "only-fault": _named("tests/bad/*/*.patch"),
    "plan": _plans,
    "name": _experiments,
    "remote": _remotes,
    "result": _runs,
    "run": _runs,
    "variant": _variants,
    "print-completion-script": lambda: SCRIPTS,
}
_POSITIONAL: Mapping[str, Callable[[], Iterable[str]]] = {
    "baseline-accept": _runs,
    "bench": _kernels,
    "collect": _runs,
    "experiment": _experiment_words,
    "sass-diff": _builds,
    "show": _runs,
}
