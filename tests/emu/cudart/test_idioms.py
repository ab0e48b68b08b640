"""Idioms of authors, each right and with a part left out: named at its line, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kernelrig.model import Toolchain

from tests.emu.cudart.program_fixture import PROGRAMS, run_compiled

SOURCE = (PROGRAMS / "idioms.cu").read_text().splitlines()

WANTED = {
    "tiles<1>": "tile = atomicAdd",
    "look_back<2>": "before = __ldcg",
    "split_k<1>": "out[threadIdx.x] += 1;",
    "split_k<2>": "out[threadIdx.x] += 1;",
    "split_k<3>": "out[threadIdx.x] += 1;",
    "grid<1>": "= out[next * 64 + threadIdx.x];",
    "grid<3>": "= out[next * 64 + threadIdx.x];",
    "tally<1>": "= out[next * 64 + threadIdx.x];",
    "tally<2>": "= out[next * 64 + threadIdx.x];",
    "last<1>": "sum += out[i];",
    "fetch<1>": '"l"(__cvta_generic_to_global(out + next * 64)), "r"(shared(&full))',
    "fetch<2>": '"l"(__cvta_generic_to_global(out + next * 64)), "r"(shared(&full))',
    "fetch<3>": '"l"(__cvta_generic_to_global(out + next * 64)), "r"(shared(&full))',
    "lock<1>": "out[0] += 1;",
    "lock<2>": "out[FLAG] = 0;",
    "counter<1>": "out[FLAG] = 0;",
    "hand_on<1>": "out[64 + threadIdx.x] = out[threadIdx.x];",
    "send<1>": "= box[threadIdx.x];",
    "stages<1>": "= box[stage & 1][own ^ 132];",
    "stages<2>": "= box[stage & 1][own ^ 132];",
    "stages<3>": '"l"(__cvta_generic_to_global(from + own))',  # nvcc's line of the statement
    "exchange<1>": "= box[threadIdx.x ^ 31];",
    "exchange<2>": "box[threadIdx.x] = turn + threadIdx.x;",
    "store<1>": "box[threadIdx.x] = turn;",
    "store<2>": "box[threadIdx.x] = turn;",
}
"""Kernels with an error: one of their errors is at this line."""
WARNED = {"look_back<1>", "grid<2>"}
"""Those that lack the acquire fence alone."""


def named(mangled: str) -> str:
    """Return `tiles<1>` of `_Z5tilesILi1EEvPi`."""
    found = re.fullmatch(r"_Z\d+(\w+?)ILi(\d)EEvPi", mangled)
    return f"{found[1]}<{found[2]}>" if found else mangled


@pytest.mark.parametrize("engine", ["native", pytest.param("numpy", marks=pytest.mark.long)])
def test_what_an_idiom_lacks_is_named_at_its_line(engine: str, cuda_toolchain: Toolchain) -> None:
    ran = run_compiled("idioms", cuda_toolchain, arch="sm_90a", schedules=4, engine=engine)
    assert len(ran.run.launches) == 41
    for launch in ran.run.launches:
        name = named(launch.kernel)
        errors = [f for f in launch.findings if f.severity == "error"]
        rules = {f.rule for f in launch.findings}
        if name in WARNED:
            assert (name, errors, rules) == (name, [], {"acquire-fence-missing"})
        elif name in WANTED:
            lines = {line for f in errors for line in _lines(f.source)}
            assert any(WANTED[name] in line for line in lines), (name, lines, errors)
            saw = frozenset[int]().union(*(f.sighting.schedules for f in errors))
            assert (name, sorted(saw)) == (name, [0, 1, 2, 3])
        else:
            assert (name, launch.findings) == (name, ())


def _lines(source: str) -> set[str]:
    """Return the text of the line that a finding names."""
    number = re.search(rf"{re.escape(Path('idioms.cu').name)}:(\d+)", source)
    return {SOURCE[int(number[1]) - 1].strip()} if number else set()
