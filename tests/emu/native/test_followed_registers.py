"""The core asks Python of those instructions alone that touch a value which nothing wrote."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.native.core_scheduler import CoreScheduler
from kernelrig.emu.observe.initialisation import Init

from tests.emu.harness import ENGINES, Result, run_ptx
from tests.emu.places import places

HELD = places(c=4) + "mov.u32 %r6, %r5;\n"
"""%r6 holds a value that nothing wrote."""
USED = "st.global.u32 [%rd1], %r6;"


def run_it(body: str, engine: str, *, observed: bool = True) -> Result:
    return run_ptx(
        HELD + body, {"c": np.zeros(32, np.uint32)}, engine=engine,
        observers=[Init()] if observed else [],
    )  # fmt: skip


def told_of(body: str) -> list[str]:
    """Return the instructions that the core tells Python of, by mnemonic."""
    told: list[str] = []
    follow = CoreScheduler._follow

    def counted(self: CoreScheduler, address: int, at: int) -> int:
        if at >= 0:
            told.append(self.machine.program.function.instructions[at].mnemonic)
        return follow(self, address, at)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CoreScheduler, "_follow", counted)
        (found,) = run_it(body, "native").findings
        assert found.rule == "uninitialised-register"
    return told


def test_the_core_tells_of_what_touches_such_a_register_alone() -> None:
    loop = (
        "mov.u32 %r8, 0; AGAIN: add.u32 %r8, %r8, 1; xor.b32 %r9, %r8, 5; "
        "setp.lt.u32 %p1, %r8, 100; @%p1 bra AGAIN; "
    )
    # From where the loop begins on nothing reads %r5: that is forgotten, once.
    assert told_of(f"{loop} {USED}") == ["mov.u32", "add.u32", "st.global.u32", "ret"]
    other = loop.replace("xor.b32 %r9, %r8, 5", "xor.b32 %r9, %r6, 5")
    assert told_of(f"{other} {USED}").count("xor.b32") == 100


def test_the_core_tells_where_nothing_reads_such_a_register_any_more() -> None:
    body = f"setp.lt.u32 %p1, %r190, 8; @%p1 bra A; st.global.u32 [%rd1], 1; bra B; A: {USED} B: "
    assert told_of(body).count("st.global.u32") == 2  # the first one too, that begins a segment


@pytest.mark.parametrize("engine", ENGINES)
def test_a_clock_goes_as_fast_where_values_are_followed(engine: str) -> None:
    body = "mov.u32 %r8, %clock; mov.u32 %r9, %clock; sub.u32 %r9, %r9, %r8; " + (
        "st.global.u32 [%rd1], %r9; add.u32 %r7, %r6, 1;"
    )
    seen, alone = (run_it(body, engine, observed=observed) for observed in (True, False))
    assert [f.rule for f in seen.findings] == ["register-not-written"]
    assert np.array_equal(seen.buffers["c"], alone.buffers["c"])
    assert seen.buffers["c"].view(np.uint32)[0] == 16
