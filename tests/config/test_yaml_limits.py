"""YAML that would not end, or not fit, is one sentence."""

from __future__ import annotations

import pytest
from kernelrig.config.load import read_remotes
from kernelrig.config.yaml_source import parse_yaml
from kernelrig.errors import ConfigError

_LAUGHS = "".join(
    f"a{n}: &a{n} [{', '.join(f'*a{n - 1}' if n else 'x' for _ in range(9))}]\n" for n in range(10)
)
_DEEP = "nested deeper than 64 levels"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: " + "[" * 200_000, f"x.yaml:1: {_DEEP}"),
        ("a: " + "[" * 5000 + "]" * 5000, f"x.yaml:1: {_DEEP}"),
        ("a: " + "{a: " * 50_000, f"x.yaml:1: {_DEEP}"),
        ("- " * 20_000 + "x", f"x.yaml:1: {_DEEP}"),
        ("\n".join("  " * n + "a:" for n in range(500)), f"x.yaml:65: {_DEEP}"),
    ],
    ids=["flow", "closed", "mappings", "sequences", "block"],
)
def test_nesting_has_a_limit(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, "x.yaml")
    assert caught.value.message == said


def test_aliases_of_aliases_are_not_expanded_for_ever() -> None:
    document = parse_yaml(_LAUGHS, "x.yaml")
    assert set(document.problems.values()) == {"the file holds more than 100000 values"}


@pytest.mark.parametrize("key", ["kind", "remotes", "schema"])
def test_the_last_of_two_equal_keys_never_wins(key: str) -> None:
    entry = "  here: {kind: embedded, arch: sm_90a}\n"
    lines = {
        "kind": f"schema: 2\nremotes:\n{entry.replace('}', ', kind: ssh}')}",
        "remotes": f"schema: 2\nremotes:\n{entry}remotes:\n{entry}",
        "schema": f"schema: 2\nschema: 2\nremotes:\n{entry}",
    }
    with pytest.raises(ConfigError) as caught:
        read_remotes(parse_yaml(lines[key], "x.yaml"))
    assert f"duplicate key '{key}'" in caught.value.message
