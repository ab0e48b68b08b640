"""Texts and launch files with something wrong: one clear answer, never a traceback, a hang, or
memory that grows.
"""

from __future__ import annotations

import gc
import json
import os
import random
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kernelrig.emu.__main__ import main
from kernelrig.emu.native.core_build import SANITIZED, Variant, build, sanitizer_environment
from kernelrig.emu.native.library import library
from kernelrig.proc import run_process

from tests.emu.faults.kernels import KERNELS
from tests.emu.native.test_random_programs import SANITIZED_PROGRAMS
from tests.toolchain_fixture import REPOSITORY

FEW, MANY, PARTS = 30, 10_000, 16
SANITIZED_MUTATIONS = 1000
SANITIZED_PLACES = ("tests/emu/test_mutations.py", "tests/emu/native", "tests/emu/faults",
                    "--ignore=tests/emu/native/test_core_build.py")  # fmt: skip
STEPS = 1500
PAGE = os.sysconf("SC_PAGE_SIZE")
ALLOWED_GROWTH = 48 << 20

Mutation = Callable[[random.Random, str], str]
WORD = re.compile(r"[%.\w:]+|[^\s\w]")


def cut(rng: random.Random, text: str) -> str:
    return text[: rng.randrange(len(text))]


def drop_line(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    del lines[rng.randrange(len(lines))]
    return "".join(lines)


def repeat_line(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    lines.insert(rng.randrange(len(lines)), rng.choice(lines))
    return "".join(lines)


def swap_lines(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return "".join(lines)


def change_byte(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text))
    return (
        text[:at]
        + chr(rng.choice((0, 9, 34, 37, 64, 123, 125, rng.randrange(256))))
        + text[at + 1 :]
    )


def _words(text: str) -> list[re.Match[str]]:
    return list(WORD.finditer(text))


def swap_words(rng: random.Random, text: str) -> str:
    """Put another word of the text in the place of one."""
    words = _words(text)
    old, new = rng.choice(words), rng.choice(words)
    return text[: old.start()] + new.group() + text[old.end() :]


def drop_word(rng: random.Random, text: str) -> str:
    word = rng.choice(_words(text))
    return text[: word.start()] + text[word.end() :]


def change_number(rng: random.Random, text: str) -> str:
    numbers = list(re.finditer(r"(?<![\w%.])-?\d+", text))
    if not numbers:
        return text
    old = rng.choice(numbers)
    new = rng.choice((0, 1, -1, 2, 3, 31, 33, 255, 1 << 31, -(1 << 31), (1 << 64) - 1, 1 << 70,
                      int(old.group()) + 1, int(old.group()) * 2))  # fmt: skip
    return text[: old.start()] + str(new) + text[old.end() :]


def insert_noise(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text))
    return (
        text[:at]
        + "".join(rng.choices("{}[]();,.%@\"'/*\\\n\0é$", k=rng.randrange(1, 9)))
        + text[at:]
    )


MUTATIONS: tuple[Mutation, ...] = (
    cut, drop_line, repeat_line, swap_lines, change_byte, swap_words, drop_word, change_number,
    insert_noise,
)  # fmt: skip
MODIFIER = re.compile(r"\.[a-z][\w:]*")


def drop_modifier(rng: random.Random, text: str) -> str:
    word = rng.choice(list(MODIFIER.finditer(text)))
    return text[: word.start()] + text[word.end() :]


def swap_modifier(rng: random.Random, text: str) -> str:
    words = list(MODIFIER.finditer(text))
    old, new = rng.choice(words), rng.choice(words)
    return text[: old.start()] + new.group() + text[old.end() :]


VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1, 3, 1 << 40, 1.5, float("nan"), "", "A", "no such", [], [1], [0, 0, 0],
    [1, 1, 1, 1], {}, {"kind": "zero"}, {"buffer": "A"}, [[1]],
)  # fmt: skip


def change_value(rng: random.Random, text: str) -> str:
    """Change, drop or add one value of a JSON text, wherever it lies."""
    whole = json.loads(text)
    at = whole
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return text
        key = rng.choice(keys)
        if isinstance(at[key], dict | list) and at[key] and rng.random() < 0.8:
            at = at[key]
            continue
        access_kind = rng.randrange(4)
        if access_kind == 0:
            del at[key]
        elif access_kind == 1 and isinstance(at, dict):
            at[rng.choice(("a", "buffer", "path", "value", ""))] = rng.choice(VALUES)
        else:
            at[key] = rng.choice(VALUES)
        return json.dumps(whole)


def resident() -> int:
    """Return the bytes of memory that this process holds."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def run_once(
    place: Path, seed: int, engine: str, changed: str, capsys: pytest.CaptureFixture[str]
) -> list[Any]:
    """Return the exit code, and what does not depend on the engine of the rest."""
    path = place / "found.json"
    path.unlink(missing_ok=True)
    words = ["--max-steps", str(STEPS), "--jobs", "1", "--schedules", "1", "--seed", str(seed)]
    words += ["--engine", engine, "--json", str(path)]
    code = main(["run", str(place / "launch.json"), *words])
    said = capsys.readouterr()
    assert code in (0, 1, 2), changed
    if code == 2:
        assert re.match(r"error: \S+", said.err), changed
        assert "Traceback" not in said.err, changed
        return [code, said.err]
    found = json.loads(path.read_text())
    del found["run"]["engine"]
    if "launches" in found:
        assert " in 1 schedule" in said.out, changed
        assert found["verdict"] == code, changed
        assert said.out.splitlines()[-1].startswith("fail: " if code else "pass: "), changed
        return [code, found]
    assert "emulated: 1 schedule, " in said.out, changed
    assert said.out.splitlines()[-1].startswith("fail: " if code else "pass: "), changed
    assert (", 0 errors, " in said.out) == (code == 0), changed
    del found["stats"]["wall_s"]
    return [code, found]


def as_sequence(launch: str) -> str:
    """Return the launch as `record` writes it: buffers at addresses, pointers among bytes."""
    whole = json.loads(launch)
    one = {k: whole[k] for k in ("entry", "grid", "block", "cluster", "args")}
    one |= {"module": "m", "dynamic_smem_bytes": whole.get("dynamic_smem_bytes", 0)}
    one["args"] = [
        {"bytes": "00" * 8, "holds": [{"at": 0, **a}]} if "buffer" in a else a for a in one["args"]
    ]
    buffers, at = {}, 0x7F00_0001_0000
    for name, buffer in whole["buffers"].items():
        buffers[name] = {"address": hex(at), **buffer}
        at += 1 << 24
    first, fill = next((n, b["fill"]) for n, b in buffers.items() if b["fill"]["kind"] == "file")
    before = {first: [{"path": fill["path"], "offset_bytes": 0}]}
    launches = [one, {**one, "before": before}]
    modules = {"m": {"path": "kernel.ptx"}}
    maps = whole.get("tensor_maps", {})
    return json.dumps(
        {"schema": 2, "launches": launches, "modules": modules, "buffers": buffers,
         "tensor_maps": maps}
    )  # fmt: skip


def mutate(
    count: int,
    seed: int,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    engines: Sequence[str] = ("numpy",),
) -> tuple[dict[int, int], list[int]]:
    """Run `count` mutations; return how often each exit code came, and the memory by and by.

    What each of `engines` makes of a mutation is the same.
    """
    rng = random.Random(seed)
    kernels = []
    for kernel in KERNELS.values():
        place = folder / kernel.name
        place.mkdir()
        kernel.load(place, kernel.text)
        launch = (place / "launch.json").read_text("utf-8")
        kernels.append((place, kernel.text, launch))
        kernels.append((place, kernel.text, as_sequence(launch)))
    codes: dict[int, int] = {}
    held = []
    for number in range(count):
        place, text, launch = kernels[number % len(kernels)]
        what = launch if number % 4 == 3 else text
        more = (change_value,) * 8 if what is launch else (drop_modifier, swap_modifier)
        changed = rng.choice((*MUTATIONS, *more))(rng, what)
        if changed is what:
            continue
        if what is text and rng.random() < 0.2:
            changed = rng.choice(MUTATIONS)(rng, changed or " ")
        (place / "kernel.ptx").write_text(text if what is launch else changed, "utf-8")
        (place / "launch.json").write_text(changed if what is launch else launch, "utf-8")
        code, *first = run_once(place, number, engines[0], changed, capsys)
        for engine in engines[1:]:
            assert run_once(place, number, engine, changed, capsys) == [code, *first], changed
        codes[code] = codes.get(code, 0) + 1
        if number % (count // 10) == 0:
            held.append(resident())
    return codes, held


@pytest.mark.long
def test_many_mutations_leave_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes, held = mutate(MANY, 2, tmp_path, capsys)
    assert sum(codes.values()) > 0.98 * MANY
    assert set(codes) == {0, 1, 2}
    assert held[-1] - held[2] < ALLOWED_GROWTH, [h >> 20 for h in held]


@pytest.mark.parametrize(
    ("count", "seed"),
    [(FEW, 3), *(pytest.param(MANY // PARTS, 4 + n, marks=pytest.mark.long) for n in range(PARTS))],
)
def test_whatever_mutations_make_gets_one_clear_answer_the_same_of_both_engines(
    count: int,
    seed: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    record_property: Callable[[str, object], None],
) -> None:
    library()  # what it says of compiling is no finding
    codes, _ = mutate(count, seed, tmp_path, capsys, ("numpy", "native"))
    record_property("mutations", sum(codes.values()))  # others changed nothing
    assert set(codes) == {0, 1, 2}


@pytest.mark.skipif(SANITIZED not in os.environ, reason="the core has no sanitizers here")
@pytest.mark.limit(1800)
@pytest.mark.parametrize("count", [SANITIZED_MUTATIONS])
def test_no_sanitizer_sees_anything_in_what_mutations_make(
    count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes, _ = mutate(count, 5, tmp_path, capsys, ("native",))
    assert set(codes) == {0, 1, 2}


@pytest.mark.long
@pytest.mark.parametrize("cases", [(SANITIZED_MUTATIONS, SANITIZED_PROGRAMS)], ids=str)
def test_the_sanitized_core_passes_the_tests_of_the_engine_and_the_fuzzing(
    cases: tuple[int, int], tmp_path: Path
) -> None:
    """In a process of its own: the sanitizers must be its first library.

    What they report is a failure, also where a test took it for something else.
    """
    build(Variant(sanitized=True))  # before the limits of those tests
    words = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider"]
    words += ["-p", "no:faulthandler", "-m", "not long", *SANITIZED_PLACES]
    env = {**os.environ, **sanitizer_environment(tmp_path)}
    done = run_process(words, cwd=REPOSITORY, env=env, timeout_s=3600.0)
    reports = "".join(path.read_text(errors="replace") for path in tmp_path.iterdir())
    assert not reports, reports[:20_000]
    assert done.exit_code == 0, done.stdout[-20_000:] + done.stderr[-5000:]
    ran = re.findall(r"::test_no_sanitizer_sees_anything\w+\[(\d+)\] PASSED", done.stdout)
    assert tuple(map(int, ran)) == cases
