"""wgmma as an H200 did it: 16 rows and columns of products of all kinds, bit for bit.

The data are what `wgmma.mma_async` left on an H200 under driver 580.159.04: by form, the 128 bytes
of K of each row of A and B, how many products follow one another, and the registers of warp 0
before and after. Among the numbers are zeros, subnormals, infinities and NaNs.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.emu.harness import ENGINES
from tests.emu.tensor_harness import k_major, place
from tests.emu.test_wgmma import A_START, B_START, SIZE, descriptors, product_text, run_product
from tests.long_cases import mostly_long
from tests.toolchain_fixture import REPOSITORY

RECORDED = REPOSITORY / "tests/data/emu/wgmma-h200-580.159.04.npz"
STARTS = 0xC000
FORMS = {
    "f32.e4m3.e4m3": 32,
    "f32.e5m2.e5m2": 32,
    "f32.e4m3.e5m2": 32,
    "f16.e4m3.e4m3": 32,
    "f32.f16.f16": 16,
    "f16.f16.f16": 16,
    "f32.bf16.bf16": 16,
    "f32.tf32.tf32": 8,
}
"""The K of each."""


@pytest.mark.parametrize("engine", mostly_long(ENGINES, "native"))
@pytest.mark.parametrize("form", FORMS)
def test_sums_are_those_of_an_h200_to_the_bit(form: str, engine: str) -> None:
    k = FORMS[form]
    with np.load(RECORDED) as recorded:
        a, b, steps, start, wanted = (
            recorded[f"{form} {name}"] for name in ("a", "b", "steps", "start", "sum")
        )
    registers = wanted.shape[2]
    loads = "".join(f"ld.shared.b32 %d{v}, [%r120+{STARTS + 4 * v}];" for v in range(registers))
    before = f"mad.lo.u32 %r120, %r1, {4 * registers}, %r103; {loads} {descriptors(128, 1024)}"
    tail = "1, 1, 1, 0, 0" if k == 16 else "1, 1, 1"
    following = "add.u64 %rd10, %rd10, 2; add.u64 %rd11, %rd11, 2; MMA\n"
    for case, count in enumerate(steps.tolist()):
        text = product_text(
            16, f"m64n16k{k}.{form}", f"%rd10, %rd11, {tail}", registers=registers,
            before=before, steps=following * (count - 1),
        )  # fmt: skip
        memory = np.zeros(SIZE, np.uint8)
        place(memory, A_START, np.tile(a[case], (4, 1)), k_major(128, 1024), 128)
        place(memory, B_START, b[case], k_major(128, 1024), 128)
        starts = np.tile(start[case], (4, 1)).reshape(-1).view(np.uint8)
        memory[STARTS : STARTS + len(starts)] = starts
        found = run_product(text, memory, registers, hardware_accumulation=True, engine=engine)
        assert found.findings == (), case
        left = found.buffers["out"].reshape(4, 32, registers)
        assert [np.argwhere(left[w] != wanted[case]).tolist()[:4] for w in range(4)] == [[]] * 4, (
            case
        )
