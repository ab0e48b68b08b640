"""What products of tcgen05.mma the core makes: it asks once for each instruction descriptor."""

from __future__ import annotations

import ctypes

from kernelrig.emu.machine.machine_state import Machine
from kernelrig.emu.tensor.formats import FORMATS
from kernelrig.emu.tensor.instruction_descriptor import KINDS, doubtful, product
from kernelrig.emu.tensor.operand_layout import BadDescriptor

_I, _L = ctypes.c_int, ctypes.c_int64
ON_DESCRIPTOR = ctypes.CFUNCTYPE(_I, ctypes.c_uint32, _I, _I, _I, _L)


class TensorForm(ctypes.Structure):
    """`TensorForm` of core/tensor/tensor_product.hpp."""

    _fields_ = tuple(
        (name, _L)
        for name in ("is_plain", "m", "n", "a", "b", "a_mn_major", "b_mn_major", "stationary")
    )


def decode_descriptor(
    machine: Machine, bits: int, kind: int, cta_group: int, stationary: int, into: int
) -> int:
    """Decode an instruction descriptor of tcgen05.mma, if the core does such products."""
    try:
        found = product(bits, KINDS[kind], cta_group, stationary=bool(stationary))
    except BadDescriptor:
        return 0
    exact = not machine.hardware_accumulation and found.d == "f32"
    made, names = TensorForm.from_address(into), list(FORMATS)
    exact &= not (found.a.bits or found.b.bits)  # types under a byte are Python's
    made.is_plain = exact and not (found.negate_a or found.negate_b or doubtful(found, cta_group))
    made.m, made.n = found.m, found.n
    if exact:
        made.a, made.b = names.index(found.a.name), names.index(found.b.name)
    made.a_mn_major, made.b_mn_major = found.a_mn_major, found.b_mn_major
    made.stationary = found.stationary
    return 0
