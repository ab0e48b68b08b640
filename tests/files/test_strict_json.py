"""What parsers differ about, or what has no bound, is refused; plain JSON is read as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kernelrig.errors import ConfigError, ProtocolError
from kernelrig.files import strict_json
from kernelrig.files.serialization import from_json, to_json
from kernelrig.files.strict_json import MAX_DEPTH, StrictError
from kernelrig.model import CommandResult, EndedBy
from kernelrig.stages.harness.result import HarnessResult

DEEPEST: list[Any] = []
for _ in range(MAX_DEPTH - 1):
    DEEPEST = [DEEPEST]

DATA = Path(__file__).parents[1] / "data"

ODD = {
    '{"a": 1, "a": 2}': 'the key "a" occurs twice in one object',
    '{"x": [{"a": 1, "b": 0, "a": 1}]}': 'the key "a" occurs twice in one object',
    r'{"a": 1, "\u0061": 2}': 'the key "a" occurs twice in one object',
    '[NaN]': "NaN is no JSON number",
    '{"a": Infinity}': "Infinity is no JSON number",
    '[-Infinity]': "-Infinity is no JSON number",
    '[1e400]': "a number is beyond the range of a double",
    '{"a": [-1e999]}': "a number is beyond the range of a double",
    '[18446744073709551616]': "a whole number does not fit 64 bits",
    '[-9223372036854775809]': "a whole number does not fit 64 bits",
    '[' * (MAX_DEPTH + 1) + ']' * (MAX_DEPTH + 1): "it is nested deeper than 64 levels",
    str([1] * 40 + [1 << 64]): "a whole number does not fit 64 bits",
    str([[1, 2]] * 40 + [[-(1 << 63) - 1]]): "a whole number does not fit 64 bits",
    f"[{'0.5,' * 40} 1e999]": "a number is beyond the range of a double",
    f"[{'[0.5],' * 40} [1e999]]": "a number is beyond the range of a double",
    f"[{'[1],' * 40} [1, 1e999]]": "a number is beyond the range of a double",
    '[' * MAX_DEPTH + f"[{'1,' * 40} 1]" + ']' * MAX_DEPTH: "it is nested deeper than 64 levels",
    '[' * (MAX_DEPTH - 1) + f"[{'[1],' * 40} [1]]" + ']' * (MAX_DEPTH - 1):
        "it is nested deeper than 64 levels",
    '{"a":' * 900 + "1" + "}" * 900: "it is nested deeper than 64 levels",
    '[' * 200_000: "it is nested deeper than 64 levels",
}  # fmt: skip


@pytest.mark.parametrize("text", ODD, ids=lambda text: text[:24])
def test_what_parsers_differ_about_is_refused(text: str) -> None:
    with pytest.raises(StrictError) as caught:
        strict_json.loads(text)
    assert str(caught.value) == ODD[text]
    with pytest.raises(StrictError):
        strict_json.loads(text.encode())


@pytest.mark.parametrize(
    "value",
    [[*range(40)], [0.5] * 40, [[1, 2]] * 40, [[]] * 40, [[0.5, 1]] * 40, [1, 0.5] * 40,
     [True] * 40, [[1, "x"]] * 40, [None, 1.5] * 40, [[[1]]] * 40],
)  # fmt: skip
def test_long_lists_are_read_as_they_are(value: list[Any]) -> None:
    assert strict_json.loads(json.dumps(value)) == value


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[1,]", b"{'a': 1}", b"[01]", b"[+1]", b"[.5]", b"[0x1]", b"[1] [2]", b'"\n"',
     b'"\xff"', b'"\xed\xa0\x80"', b"\xef\xbb\xbf[1]", "[1]".encode("utf-16"), b"9" * 5000],
)  # fmt: skip
def test_what_is_no_json_in_utf_8_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError) as caught:
        strict_json.loads(data)
    assert not isinstance(caught.value, StrictError)


def test_what_is_longer_than_the_limit_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    path.write_text("[" + " " * 100 + "]")
    assert strict_json.load(path, max_bytes=102) == []
    with pytest.raises(StrictError) as caught:
        strict_json.load(path, max_bytes=101)
    assert str(caught.value) == "it has more than 101 bytes"


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        "",
        0,
        -(1 << 63),
        (1 << 64) - 1,
        1.5,
        1e308,
        [[{"a": [True, "\ud800"]}]],
        DEEPEST,
    ],
)
def test_plain_json_is_read_as_it_was_written(value: object) -> None:
    assert strict_json.loads(json.dumps(value)) == value


def test_every_capture_of_a_real_tool_is_plain() -> None:
    captures = sorted(DATA.rglob("*.json"))
    assert len(captures) >= 20
    for path in captures:
        assert strict_json.load(path) == json.loads(path.read_bytes()), path


def refused(path: Path, kind: type) -> str:
    with pytest.raises(ProtocolError) as caught:
        from_json(kind, path)
    assert caught.value.exit_code == 5
    return caught.value.message


def test_the_last_duplicate_of_a_result_never_wins(tmp_path: Path) -> None:
    good = next(p for p in sorted(DATA.glob("results/**/*.json")) if '"checksum"' in p.read_text())
    text = good.read_text()
    assert from_json(HarnessResult, good).schema == 1
    path = tmp_path / "result.json"
    path.write_text(text.rstrip().removesuffix("}") + ', "checksum": "0"}')
    wanted = f'{path} cannot be read: the key "checksum" occurs twice in one object'
    assert refused(path, HarnessResult) == wanted


@pytest.mark.parametrize("seconds", ["NaN", "Infinity", "1e999", "-Infinity"])
def test_a_number_that_is_none_is_in_no_record(seconds: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(to_json(CommandResult("x", EndedBy.EXIT, 0, seconds=0.25)))
    path.write_text(path.read_text().replace("0.25", seconds))
    assert refused(path, CommandResult).startswith(f"{path} cannot be read: ")


def test_a_record_that_could_not_be_read_back_is_not_written() -> None:
    with pytest.raises(ValueError):
        to_json(CommandResult("x", EndedBy.EXIT, 0, seconds=float("inf")))


@pytest.mark.parametrize("name", ["launch", "findings"])
def test_the_emulator_reads_its_files_as_strictly(name: str, tmp_path: Path) -> None:
    from kernelrig.emu.__main__ import main

    path = tmp_path / f"{name}.json"
    path.write_text('{"schema": 1, "schema": 2}')
    given: dict[str, list[Any]] = {
        "launch": ["run", str(path)],
        "findings": ["split", str(path), "--observe", "races", "--json", str(tmp_path / "x")],
    }
    assert main(given[name]) == ConfigError.exit_code
