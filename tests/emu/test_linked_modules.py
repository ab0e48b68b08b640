"""Modules of relocatable device code: linked to one, run, and what cannot be linked."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.frontend.linked_modules import linked
from kernelrig.emu.launch.bind import Buffer, bind
from kernelrig.emu.launch.execution import Schedule, run
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.errors import ConfigError
from kernelrig.ptx import Module, parse_ptx

from tests.emu.harness import HEAD

USES = """
.extern .func (.param .b32 func_retval0) twice (.param .b32 twice_param_0);
.extern .global .align 4 .b8 table[8];
.weak .func nothing() { ret; }
.visible .entry k(.param .u64 out)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>;
ld.param.u64 %rd0, [out];
mov.u64 %rd1, table;
ld.global.u32 %r0, [%rd1+4];
{ .param .b32 param0; .param .b32 retval0;
st.param.b32 [param0], %r0;
call.uni (retval0), twice, (param0);
ld.param.b32 %r1, [retval0]; }
call.uni nothing, ();
st.global.u32 [%rd0], %r1;
ret;
}
"""
DEFINES = """
.visible .global .align 4 .b8 table[8] = {1, 0, 0, 0, 21, 0, 0, 0};
.weak .func nothing() { ret; }
.visible .func (.param .b32 func_retval0) twice (.param .b32 twice_param_0)
{
.reg .b32 %r<3>;
ld.param.u32 %r1, [twice_param_0];
shl.b32 %r2, %r1, 1;
st.param.u32 [func_retval0], %r2;
ret;
}
"""


def parsed(*texts: str) -> list[Module]:
    return [parse_ptx(HEAD.format(target="sm_90") + text, "test.ptx") for text in texts]


@pytest.mark.parametrize("order", [(USES, DEFINES), (DEFINES, USES)])
def test_what_one_module_declares_another_defines(order: tuple[str, str]) -> None:
    module = linked(parsed(*order))
    entry = module.function("k")
    assert entry is not None
    kernel = bind(module, entry, Geometry((1, 1, 1), (1, 1, 1)), {"out": Buffer(4)})
    kernel.fill_params([kernel.buffers["out"].address.to_bytes(8, "little")])
    outcome = run(kernel, Schedule(), [])
    at = kernel.buffers["out"].start
    assert outcome.machine.memory.global_.bytes[at : at + 4].view(np.uint32).tolist() == [42]


def test_one_module_is_itself() -> None:
    (module,) = parsed(DEFINES)
    assert linked([module]) is module


@pytest.mark.parametrize("name", ["table", "twice"])
def test_two_definitions_are_refused_by_name(name: str) -> None:
    text = DEFINES if name == "table" else DEFINES.replace(".visible .global", ".extern .global")
    text = text if name == "table" else text.replace(" = {1, 0, 0, 0, 21, 0, 0, 0}", "")
    with pytest.raises(ConfigError, match=f"{name} is defined in two"):
        linked(parsed(DEFINES, text))
