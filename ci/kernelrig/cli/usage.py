"""Command lines: any number of positional words, and usage errors with the nearest known name."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from invoke import ParseError
from invoke.parser import ParserContext

from kernelrig.errors import ConfigError

LONGEST_WORD = 4096
LONGEST_NAME = 255
SOURCES = (".cu", ".cpp", ".cc", ".yaml", ".ptx")
"""Bytes of a path and of a name in it, as Linux allows them."""

_COMPILER_FLAG = re.compile(
    r"-(?:[DILWX]|O[0-9a-z]|l[A-Za-z]|std=|arch=|gencode|rdc=|lineinfo$|use_fast_math$|maxrreg|f\w+-)"
)
"""What a person may write who knows nvcc; short flags of tasks are a letter, some with a number."""


def check_words(words: Sequence[str]) -> None:
    """ConfigError for a word that no flag takes: empty, with a control character, or too long.

    An empty value would mean that the flag was not given, and a script's variable that is not set
    would take away what it asks for. The folder of --root may be called anything.
    """
    for before, word in zip(("", *words), words, strict=False):
        if not word or re.fullmatch(r"--?[\w-]+=", word):
            flag = word.rstrip("=") or (before if before.startswith("-") else "an argument")
            raise ConfigError(
                f"{flag} has an empty value", "leave it out, or set the variable that it is from"
            )
        if before == "--root" or word.startswith("--root="):
            continue
        if any(c < " " or c == "\x7f" for c in word):
            raise ConfigError(f"an argument holds a control character: {word[:80]!a}")
        longest = max(map(len, map(os.fsencode, re.split("[/=,:@]", word))))
        if len(os.fsencode(word)) > LONGEST_WORD or longest > LONGEST_NAME:
            raise ConfigError(
                f"an argument is too long: {word[:40]}...",
                f"it may have {LONGEST_WORD} bytes, and a name in it {LONGEST_NAME}",
            )


def spread_words(words: Sequence[str], task: ParserContext, flag: str) -> list[str]:
    """Return `words` with `flag` before each word after the last positional argument of `task`.

    `bench A B C` becomes `bench A B --also C`: Invoke has no list of positional arguments.
    """
    if task.name not in words:
        return list(words)
    start = words.index(task.name) + 1
    positional = [argument for argument in task.positional_args if argument.kind is not list]
    spread, named, of_flag = list(words[:start]), 0, False
    for word in words[start:]:
        if of_flag or word.startswith("-"):
            known = task.flags.get(word)
            of_flag = not of_flag and known is not None and known.takes_value
            spread.append(word)
            continue
        named += 1
        spread += [flag, word] if named > len(positional) else [word]
    return spread


def refuse_compiler_flags(words: Sequence[str], task: ParserContext) -> None:
    """ConfigError for a flag of nvcc among the words of a task that has --nvcc-flags.

    Invoke would read `-lcurand` as a short flag with a value, and `-std=c++17` as an unknown one.
    """
    if task.name not in words or "--nvcc-flags" not in task.flags:
        return
    of_flag = False
    for word in words[words.index(task.name) + 1 :]:
        known = task.flags.get(word)
        if not of_flag and _COMPILER_FLAG.match(word):
            flags = shlex.quote(f"--nvcc-flags={word}")
            raise ConfigError(
                f"'{word}' is no flag of {task.name}",
                f"one of nvcc is passed as {flags}, one of the program behind --",
            )
        of_flag = not of_flag and known is not None and known.takes_value


def usage_error(
    error: ParseError,
    words: Sequence[str],
    tasks: Mapping[str, Iterable[str]],
    options: Iterable[str],
) -> ConfigError:
    """Return the error to show for what Invoke's parser raised on the command line `words`.

    `tasks` maps each task's name to its flags; `options` are the flags before a task.
    """
    said, task = str(error), (error.context.name if error.context else None) or ""
    if found := re.fullmatch(r"No idea what (['\"])(.*)\1 is!", said, re.DOTALL):
        word = found[2]
        if word.startswith("-"):
            return _unknown_flag(word, task, [*tasks.get(task, ()), *options])
        if misused := _misused_flag(word, words):
            return misused
        if task and (word.endswith(SOURCES) or os.sep in word):
            return ConfigError(
                f"{task} takes no file, and '{word}' is no task",
                f"see `invoke {task} --help`; a program without a project: `invoke run FILE`",
            )
        return _unknown("task", word, tasks, "`invoke --list` names all")
    if found := re.fullmatch(r"'(.*)' did not receive required positional arguments: (.*)", said):
        names = " and ".join(name.strip("'").upper() for name in found[2].split(", "))
        # An alias is what was typed, and not the task that Invoke knows.
        other = next((word for word in words if not word.startswith("-")), found[1])
        typed = found[1] if found[1] in words else other
        lists = {"RUN": "; `invoke runs` lists them", "SOURCE": "; `invoke runs` lists runs"}
        listed = lists.get(names, "")
        return ConfigError(f"{typed} needs {names}", f"see `invoke {typed} --help`{listed}")
    if found := re.fullmatch(r"Flag <Argument: ([\w-]+).*> needed value.*", said):
        return ConfigError(f"--{found[1].replace('_', '-')} needs a value")
    return ConfigError(said[:1].lower() + said[1:].rstrip("!."))


def _misused_flag(word: str, words: Sequence[str]) -> ConfigError | None:
    """Return the error if `word`, which Invoke took for a task, is the value of a flag that takes
    none, or of one that was given before.
    """
    for i, typed in enumerate(words):
        flag, equals, value = typed.partition("=")
        if not flag.startswith("--"):
            continue
        if (value if equals else next(iter(words[i + 1 :]), "")) != word:
            continue
        if any(earlier.partition("=")[0] == flag for earlier in words[:i]):
            return ConfigError(f"{flag} is given twice", "give it once")
        if equals:
            return ConfigError(f"{flag} takes no value, not '{word}'")
    return None


def _unknown_flag(word: str, task: str, known: Iterable[str]) -> ConfigError:
    long = [flag for flag in known if flag.startswith("--")]
    where = f" of {task}" if task else ""
    see = f"see `invoke {task} --help`" if task else "see `--help`"
    return _unknown("flag", word, long, see, where)


def _unknown(
    what: str, word: str, known: Iterable[str], otherwise: str, where: str = ""
) -> ConfigError:
    from kernelrig.files.validation import nearest

    near = nearest(word, known)
    return ConfigError(f"unknown {what} '{word}'{where}{near}", "" if near else otherwise)
