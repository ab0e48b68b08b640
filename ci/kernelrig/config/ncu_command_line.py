"""What is wrong with a command line of ncu, cuobjdump or nvdisasm, as a playbook writes it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from kernelrig.config.ncu_catalogue import Catalogue
from kernelrig.config.ncu_replacements import OPTIONS
from kernelrig.errors import ConfigError

TOOLS = ("ncu", *sorted({tool for tool, _, _ in OPTIONS if tool != "ncu"}))
_SHORT = {
    **{"-k": "--kernel-name", "-c": "--launch-count", "-s": "--launch-skip"},
    **{"-o": "--export", "-f": "--force-overwrite", "-i": "--import", "-h": "--help"},
    **{"-v": "--version", "-p": "--port"},
}
_VALUELESS = ("--force-overwrite", "--csv", "--help", "--version", "--nvtx", "--query-metrics")
_READS = "use ncu --import FILE --page raw --csv: without --import the file would be the program"
IMPORT = "--import"


def wrong_words(line: str, catalogue: Catalogue) -> tuple[str, ...]:
    """Return what is wrong with each option and metric of a command line; empty if nothing is.

    ConfigError where it cannot be split into words, or is of another tool.
    """
    try:
        words = shlex.split(line.replace("\\\n", ""), comments=True)
    except ValueError as e:
        raise ConfigError(f"'{line[:60]}' is no command line: {e}") from e
    tool = PurePath(words[0]).name if words else ""
    if tool not in TOOLS:
        raise ConfigError(f"'{tool or line}' is none of the tools known here: {', '.join(TOOLS)}")
    if tool == "ncu":
        return tuple(dict.fromkeys(_of_ncu(words[1:], catalogue)))
    return tuple(
        f"{tool} has no option {word}; {advice}"
        for word in words[1:]
        if (advice := OPTIONS.get((tool, word, ""), ""))
    )


def _of_ncu(words: Sequence[str], catalogue: Catalogue) -> Iterator[str]:
    given: dict[str, str] = {}
    at = 0
    while at < len(words) and words[at].startswith("-"):
        word, _, value = words[at].partition("=")
        option = _SHORT.get(word, word)
        at += 1
        if option not in _VALUELESS and not value and at < len(words):
            value = words[at]
            at += 1
        while option == "--metrics" and value.endswith(",") and at < len(words):
            yield f"a blank before '{words[at]}' in --metrics: a shell takes it for the program"
            value += words[at]
            at += 1
        given[option] = value
        if option == "--metrics":
            for metric in value.split(","):
                name = metric.strip()
                if name and ":" not in name and (wrong := catalogue.wrong_metric(name)):
                    yield wrong
        elif wrong := catalogue.wrong_option(option, value):
            yield wrong
    if IMPORT not in given and given.keys() & {"--page", "--csv"} and _is_report(words[at:]):
        yield f"'{words[at]}' is a report, not a program; {_READS}"


def _is_report(rest: Sequence[str]) -> bool:
    return bool(rest) and rest[0].endswith(".ncu-rep")
