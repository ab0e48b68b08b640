"""Whatever is done to real PTX, it is read or refused in one sentence, never with a traceback."""

from __future__ import annotations

import random
import re

import pytest
from kernelrig.errors import ConfigError
from kernelrig.ptx import control_flow, parse_ptx
from kernelrig.static.ptx import check_ptx

from tests.ptx.test_round_trip import HAND_WRITTEN
from tests.ptx_fixture import CompilePtx

PIECE = re.compile(r"\s+|[\w$%.:]+|.", re.DOTALL)
SENTENCE = re.compile(r"fuzz\.ptx:\d+: [^\n]+[^\n.]")
STRANGE = (
    *'{}()[];,"@!|<>-_.%+?:~*#é\0',
    *(".loc", ".reg", ".param", ".section", ".file", ".v4", ".b32", ".align", ".branchtargets"),
    *("/*", "*/", "//", "\n", "0x", "0f", "0", "::", "%r99999", "bra", "call", "ret", "(.s64)"),
    *("9" * 5000, "!" * 200, "(" * 3000, "{" * 300, "-" * 3000, "1<<99999999", "/0", "1 ?"),
)


def mutated(text: str, rng: random.Random) -> str:
    pieces = PIECE.findall(text)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(pieces))
        match rng.randrange(6):
            case 0:
                pieces[at] = ""
            case 1:
                pieces[at] = rng.choice(STRANGE)
            case 2:
                pieces.insert(at, rng.choice(STRANGE))
            case 3:
                other = rng.randrange(len(pieces))
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case 4:
                del pieces[max(at, 1) :]
            case _:
                pieces[at] = rng.choice(pieces)
    return "".join(pieces)


def outcomes(text: str, times: int, seed: int) -> tuple[int, int]:
    """Return how many mutations were read, and how many refused."""
    rng = random.Random(seed)
    read, refusals = 0, []
    for _ in range(times):
        try:
            module = parse_ptx(mutated(text, rng), "fuzz.ptx")
        except ConfigError as e:
            refusals.append(e.message)
            continue
        for function in module.functions:
            assert len(control_flow(function).block_of) == len(function.instructions)
            check_ptx(module, function.name)
        read += 1
    assert [r for r in refusals if not SENTENCE.fullmatch(r)] == []
    return read, len(refusals)


def test_hand_written_text_is_read_or_refused() -> None:
    read, refused = outcomes(HAND_WRITTEN, 700, seed=1)
    assert read > 35
    assert refused > 350


def test_compiled_text_is_read_or_refused(compile_ptx: CompilePtx) -> None:
    text = compile_ptx("tests/ptx/probes/language.cu", "sm_100a", "-lineinfo")
    read, refused = outcomes(text, 40, seed=2)
    assert read > 2
    assert refused > 20


def test_the_rules_judge_whatever_can_be_read(compile_ptx: CompilePtx) -> None:
    text = compile_ptx("tests/static/probes/ptx_rules.cu", "sm_100a", "-Ikernel")
    head, *entries = text.split(".visible .entry")
    one = head + ".visible .entry" + entries[0]
    read, refused = outcomes(one, 50, seed=3)
    assert read > 4
    assert refused > 20


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 20))
def test_many_more_are_read_or_refused(seed: int, compile_ptx: CompilePtx) -> None:
    text = compile_ptx("tests/ptx/probes/language.cu", "sm_100a", "-lineinfo")
    for source in (HAND_WRITTEN, text):
        read, refused = outcomes(source, 1000, seed)
        assert read
        assert refused
