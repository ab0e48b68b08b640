"""Read YAML to plain values with their lines; the only module that imports yaml.

Scalars follow YAML 1.2: `no`, `on` and 1:30 are text, 1e-5 is a number, and
2027-03-31 stays text until a record asks for a date. PyYAML's own rules are those of YAML 1.1,
where these are false, true, 90, text and a date.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kernelrig.errors import ConfigError
from kernelrig.files.regular_file import read_regular
from kernelrig.files.validation import Loc, called

_MAX_BYTES = 1 << 20
"""Of a file that people write: PyYAML needs a hundred times as much memory."""
MOST_ENTRIES = 200
"""Of a list or a mapping: rules compare entries with one another, and a person reads them."""
_MOST_OF = {"accepted": 2000}
"""By the key of a list that grows with time, in place of MOST_ENTRIES."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # a newline and a tab may stand in a text


@dataclass(frozen=True, slots=True)
class Spot:
    """The position of an entry, counted from 0: lines [first, end), column, `{}` or a block."""

    first: int
    end: int
    column: int
    braces: bool


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file. `label` is its name in messages: the path relative to the project."""

    label: str
    text: str
    value: Any
    spots: dict[Loc, Spot]
    problems: dict[Loc, str]

    def line(self, loc: Loc) -> int:
        """Return the line, from 1, of the value at `loc`, or of the nearest one around it."""
        while loc and loc not in self.spots:
            loc = loc[:-1]
        return self.spots[loc].first + 1 if loc else 1

    def where(self, loc: Loc) -> str:
        return f"{self.label}:{self.line(loc)}"


class _Loader(yaml.SafeLoader):
    """SafeLoader's parser with the plain scalars of YAML 1.2: `no` and 1:30 are text."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML keeps its rules in a class attribute


class _FastLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The same with libyaml, if PyYAML was built with it: in a quarter of the time."""

    yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers


_NULL, _BOOL, _INT, _FLOAT, _STR = (
    f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str")
)
for _tag, _pattern, _first in (
    (_NULL, r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    (_BOOL, r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (_INT, r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        _FLOAT,
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
):
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), _first)

_MAX_DEPTH = 64
_MAX_VALUES = 100_000

_ADVICE = (
    (r"'\\t' that cannot start any token", "indent with spaces, not with a tab"),
    (r"mapping values are not allowed here", "put text that has ': ' in it in quotes"),
)
"""Patterns of PyYAML's messages, and what to do: the messages do not say it."""

_SCALARS: dict[str, Callable[[str], Any]] = {
    _NULL: lambda text: None,
    _BOOL: lambda text: text.lower() == "true",
    _INT: lambda text: int(text, 0 if text[:2] in ("0o", "0x") else 10),
    _FLOAT: lambda text: float(re.sub(r"\.(?=[iInN])", "", text)),
    _STR: str,
}


def read_yaml(path: Path, label: str) -> Document:
    """Read and parse `path`. ConfigError if it is missing or unreadable, or, with its line, if it
    is not YAML.
    """
    try:
        text = read_regular(path, _MAX_BYTES).decode()
    except UnicodeDecodeError as e:
        raise ConfigError(f"{label}: not UTF-8 text", "save it as UTF-8") from e
    except FileNotFoundError as e:
        folder = str(path).removesuffix(label).rstrip("/")
        raise ConfigError(
            f"no file {label} in {folder}", "create it, or pass the project's folder with --root"
        ) from e
    except OSError as e:
        raise ConfigError(f"cannot read {label}: {(e.strerror or str(e)).lower()}") from e
    return parse_yaml(text, label)


def parse_yaml(text: str, label: str) -> Document:
    text = text if text.endswith("\n") else text + "\n"
    _require_shallow(text, label)
    try:
        try:
            node = yaml.compose(text, _FastLoader)
        except yaml.YAMLError:  # libyaml's messages differ, and some have no position
            node = yaml.compose(text, _Loader)
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        line = mark.line + 1 if mark else 1
        problem = str(e.problem or e.context).replace("\t", "\\t")
        advice = next((text for pattern, text in _ADVICE if re.search(pattern, problem)), "")
        raise ConfigError(f"{label}:{line}: not YAML: {problem}", advice) from e
    except yaml.reader.ReaderError as e:
        line = text.count("\n", 0, e.position) + 1
        raise ConfigError(f"{label}:{line}: not YAML: character {e.character:#x}") from e
    walk = _Walk(text.splitlines())
    value = None if node is None else walk.value(node, (), ())
    return Document(label, text, value, walk.spots, walk.problems)


def scalar(value: object) -> str:
    """Return `value` as YAML; text that a YAML version would read as another type is quoted."""
    plain = re.compile(r"[A-Za-z_/~][A-Za-z0-9_./@~-]*")
    trap = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "~"}
    if isinstance(value, str):
        fine = plain.fullmatch(value) and value.lower() not in trap
        return str(value) if fine else json.dumps(value)
    return json.dumps(value)


def _require_shallow(text: str, label: str) -> None:
    """Raise ConfigError for text that is nested too deep: libyaml's composer would overflow the
    stack. Its parser, whose events are counted here, does not recurse.
    """
    depth = 0
    with contextlib.suppress(yaml.YAMLError):  # what is not YAML is named by who composes it
        for event in yaml.parse(text, _FastLoader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > _MAX_DEPTH:
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise ConfigError(f"{label}:{line}: nested deeper than {_MAX_DEPTH} levels")


def _unusable(value: object) -> str:
    """Return why no record, path or process can take a value, empty if they can."""
    if isinstance(value, str) and (found := _CONTROL.search(value)):
        return f"{found[0]!a} is a control character, which no name or argument may hold"
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        return f"{f'{value}'[:20]}... does not fit 64 bits"
    return ""


@dataclass(slots=True)
class _Walk:
    """Converts nodes to plain values, and records their positions and mistakes of form."""

    lines: list[str]
    spots: dict[Loc, Spot] = field(default_factory=dict)
    problems: dict[Loc, str] = field(default_factory=dict)
    visited: int = 0

    def value(self, node: yaml.Node, loc: Loc, environment: tuple[int, ...]) -> Any:  # noqa: ANN401 - any plain value
        self.visited += 1
        if self.visited > _MAX_VALUES:  # aliases of aliases: ten lines can mean a billion values
            self.problems[loc[:1]] = f"the file holds more than {_MAX_VALUES} values"
            return None
        if id(node) in environment:
            self.problems[loc] = f"the alias at '{loc[-1]}' contains itself"
            return None
        environment = (*environment, id(node))
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, loc, environment)
        if isinstance(node, yaml.SequenceNode):
            items = self.bounded(node, loc)
            for i, item in enumerate(items):
                self.note((*loc, i), item, item)
            return [self.value(item, (*loc, i), environment) for i, item in enumerate(items)]
        try:
            value = _SCALARS[node.tag](node.value)
        except (KeyError, ValueError):
            self.problems[loc] = f"'{node.value}' cannot be a {node.tag}"
            return None
        if fault := _unusable(value):
            self.problems[loc] = fault
            return type(value)(1)  # of the right type: one mistake is reported once
        return value

    def bounded(self, node: yaml.CollectionNode, loc: Loc) -> list[Any]:
        """Return the entries of a list or a mapping, as many as there may be."""
        most = _MOST_OF.get(str(loc[-1]), MOST_ENTRIES) if loc else MOST_ENTRIES
        if len(node.value) > most:
            self.problems[loc] = f"{called(loc)} has {len(node.value)} entries, at most {most}"
        return list(node.value[:most])

    def mapping(
        self, node: yaml.MappingNode, loc: Loc, environment: tuple[int, ...]
    ) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in self.bounded(node, loc):
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems[loc] = "a key must be a single word"
                continue
            key = str(key_node.value)
            if key in values:
                line = key_node.start_mark.line
                first = self.spots[*loc, key].first + 1
                # Recorded under a path that no value has: the first entry keeps its own line.
                twice = (*loc, key, f"line {line}")
                self.spots[twice] = Spot(line, line + 1, key_node.start_mark.column, False)
                self.problems[twice] = f"duplicate key '{key}'; first on line {first}"
                continue
            self.note((*loc, key), key_node, value_node)
            values[key] = self.value(value_node, (*loc, key), environment)
        return values

    def note(self, loc: Loc, start: yaml.Node, end: yaml.Node) -> None:
        first, last, in_line = start.start_mark.line, end.end_mark.line, end.end_mark.column > 0
        braces = isinstance(end, yaml.CollectionNode) and bool(end.flow_style)
        if in_line and (braces or isinstance(end, yaml.ScalarNode)):
            last += 1
        # A block's end mark is where the next token starts: blank lines and comments between the
        # two do not belong to the block.
        while last > first + 1 and re.fullmatch(r"\s*(#.*)?", self.lines[last - 1]):
            last -= 1
        self.spots[loc] = Spot(first, max(last, first + 1), start.start_mark.column, braces)
