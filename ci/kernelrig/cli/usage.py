"""Command lines as a person types them: any number of words, and mistakes with the nearest name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from invoke import ParseError
from invoke.parser import ParserContext

from kernelrig.errors import ConfigError


def spread_words(words: Sequence[str], task: ParserContext, flag: str) -> list[str]:
    """Give each word of `task` after its last positional argument to `flag`: Invoke has no list
    of positional words. `bench A B C` becomes `bench A B --also C`.
    """
    if task.name not in words:
        return list(words)
    start, positional = (
        words.index(task.name) + 1,
        [argument for argument in task.positional_args if argument.kind is not list],
    )
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


def usage_error(
    error: ParseError, tasks: Mapping[str, Iterable[str]], options: Iterable[str]
) -> ConfigError:
    """Put into words what Invoke's parser refused. `tasks` has the flags of each task."""
    said, task = str(error), (error.context.name if error.context else None) or ""
    if found := re.fullmatch(r"No idea what (['\"])(.*)\1 is!", said, re.DOTALL):
        word = found[2]
        if word.startswith("-"):
            return _unknown_flag(word, task, [*tasks.get(task, ()), *options])
        return _unknown("task", word, tasks, "`--list` names all")
    if found := re.fullmatch(r"'(.*)' did not receive required positional arguments: (.*)", said):
        names = " and ".join(name.strip("'").upper() for name in found[2].split(", "))
        return ConfigError(f"{found[1]} needs {names}", f"see `--help {found[1]}`")
    if found := re.fullmatch(r"Flag <Argument: ([\w-]+).*> needed value.*", said):
        return ConfigError(f"--{found[1].replace('_', '-')} needs a value")
    return ConfigError(said[:1].lower() + said[1:].rstrip("!."))


def _unknown_flag(word: str, task: str, known: Iterable[str]) -> ConfigError:
    long = [flag for flag in known if flag.startswith("--")]
    where = f" of {task}" if task else ""
    see = f"see `--help {task}`" if task else "see `--help`"
    return _unknown("flag", word, long, see, where)


def _unknown(
    what: str, word: str, known: Iterable[str], otherwise: str, where: str = ""
) -> ConfigError:
    from kernelrig.files.validation import nearest

    near = nearest(word, known)
    return ConfigError(f"unknown {what} '{word}'{where}{near}", "" if near else otherwise)
