"""The log of a job as GitHub Actions makes it of a step's output: commands, masks, annotations."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_COMMAND = re.compile(r"::(?P<name>[a-z-]+)(?: (?P<properties>.*?))?::(?P<data>.*)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LEVELS = ("error", "warning", "notice")


@dataclass(frozen=True)
class Annotation:
    level: str
    message: str
    file: str = ""
    line: int = 0
    title: str = ""


@dataclass
class JobLog:
    """`workspace` is the checkout, against which the file of a matcher is read."""

    workspace: Path
    secrets: tuple[str, ...] = ()
    lines: list[str] = field(default_factory=list)
    annotations: list[Annotation] = field(default_factory=list)
    _masks: set[str] = field(default_factory=set)
    _matchers: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A secret of several lines is masked line by line too
        for secret in self.secrets:
            self._masks |= {secret, *filter(None, secret.splitlines())}

    @property
    def text(self) -> str:
        """Return what everyone can read."""
        return "\n".join(self.lines) + "\n"

    def write(self, line: str) -> None:
        """Take one line of a step's output, without its newline."""
        command = _COMMAND.fullmatch(line.strip())
        if command:
            self._obey(command["name"], _properties(command["properties"] or ""), command["data"])
            return
        self.lines.append(self._masked(line))
        self._match(_COLOUR.sub("", line))

    def _obey(self, name: str, properties: dict[str, str], data: str) -> None:
        text = _unescaped(data)
        if name == "add-mask":
            assert text.strip(), "GitHub refuses an empty mask"
            self._masks.add(text)
        elif name == "add-matcher":
            for matcher in json.loads((self.workspace / text).read_text())["problemMatcher"]:
                self._matchers[matcher["owner"]] = matcher
        elif name == "remove-matcher":
            self._matchers.pop(properties["owner"], None)
        elif name in _LEVELS:
            self._annotate(
                name,
                text,
                properties.get("file", ""),
                int(properties.get("line", 0)),
                properties.get("title", ""),
            )
        elif name not in ("debug", "group", "endgroup"):
            raise AssertionError(f"GitHub knows no command '{name}', or this model does not")

    def _match(self, line: str) -> None:
        for matcher in self._matchers.values():
            (pattern,) = matcher["pattern"]  # of one line, all of them
            if found := re.search(pattern["regexp"], line):
                part = {
                    key: found[group] or "" for key, group in pattern.items() if key != "regexp"
                }
                level = part.get("severity") or str(matcher.get("severity", "error"))
                file = part.get("file", "")
                known = bool(file) and (self.workspace / file).is_file()
                self._annotate(
                    level.lower(),
                    part["message"],
                    file if known else "",
                    int(part.get("line") or 0) if known else 0,
                )
                return

    def _annotate(self, level: str, message: str, file: str, line: int, title: str = "") -> None:
        self.annotations.append(
            Annotation(level, self._masked(message), file, line, self._masked(title))
        )

    def _masked(self, text: str) -> str:
        for mask in sorted(self._masks, key=len, reverse=True):
            text = text.replace(mask, "***")
        return text


def _properties(words: str) -> dict[str, str]:
    pairs = [word.partition("=") for word in words.split(",") if word]
    return {
        key.strip(): _unescaped(value).replace("%3A", ":").replace("%2C", ",")
        for key, _, value in pairs
    }


def _unescaped(data: str) -> str:
    return data.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
