"""Functions that a kernel calls: by name, by address, in turn; what cannot be called is refused."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.machine.machine_state import Geometry
from numpy.typing import NDArray

from tests.emu.harness import bound_text
from tests.emu.native.both_engines import run_both

FUNCTIONS = """
.version 9.0
.target sm_90
.address_size 64
.func (.param .b32 func_retval0) plus_ten (.param .b32 plus_ten_param_0)
{
.reg .b32 %r<3>;
ld.param.u32 %r1, [plus_ten_param_0];
add.u32 %r2, %r1, 10;
st.param.u32 [func_retval0], %r2;
ret;
}
.func (.param .b32 func_retval0) odd_or_half (.param .b32 odd_or_half_param_0)
{
.reg .pred %p<2>; .reg .b32 %r<5>; .reg .b64 %rd<3>;
.local .align 4 .b8 depot[8];
ld.param.u32 %r1, [odd_or_half_param_0];
st.local.u32 [depot+4], %r1;
and.b32 %r2, %r1, 1;
setp.eq.u32 %p1, %r2, 1;
@%p1 bra ODD;
ld.local.u32 %r3, [depot+4];
shr.u32 %r3, %r3, 1;
st.param.u32 [func_retval0], %r3;
ret;
ODD:
{ .param .b32 param0; .param .b32 retval0;
st.param.b32 [param0], %r1;
call.uni (retval0), plus_ten, (param0);
ld.param.b32 %r4, [retval0]; }
st.param.u32 [func_retval0], %r4;
ret;
}
.func (.param .b32 func_retval0) itself (.param .b32 itself_param_0)
{
.reg .b32 %r<3>;
{ .param .b32 param0; .param .b32 retval0;
st.param.b32 [param0], 1;
call.uni (retval0), itself, (param0);
ld.param.b32 %r1, [retval0]; }
st.param.u32 [func_retval0], %r1;
ret;
}
.func (.param .b32 func_retval0) fibonacci (.param .b32 fibonacci_param_0)
{
.reg .pred %p<2>; .reg .b32 %r<9>;
ld.param.u32 %r1, [fibonacci_param_0];
setp.lt.u32 %p1, %r1, 2;
@%p1 st.param.u32 [func_retval0], %r1;
@%p1 ret;
sub.u32 %r2, %r1, 1;
{ .param .b32 param0; .param .b32 retval0;
st.param.b32 [param0], %r2;
call.uni (retval0), fibonacci, (param0);
ld.param.b32 %r3, [retval0]; }
sub.u32 %r4, %r1, 2;
{ .param .b32 param0; .param .b32 retval0;
st.param.b32 [param0], %r4;
call.uni (retval0), fibonacci, (param0);
ld.param.b32 %r5, [retval0]; }
add.u32 %r6, %r3, %r5;
st.param.u32 [func_retval0], %r6;
ret;
}
.func (.param .b32 func_retval0) odd (.param .b32 odd_param_0);
.func (.param .b32 func_retval0) even (.param .b32 even_param_0)
{
.reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<3>;
.local .align 8 .b8 depot[8];
mov.b64 %rd1, depot;
ld.param.u32 %r1, [even_param_0];
st.local.u32 [%rd1+4], %r1;
setp.eq.u32 %p1, %r1, 0;
mov.u32 %r4, 0;
@%p1 bra DONE;
sub.u32 %r2, %r1, 1;
{ .param .b32 param0; .param .b32 retval0;
st.param.b32 [param0], %r2;
call.uni (retval0), odd, (param0);
ld.param.b32 %r3, [retval0]; }
ld.local.u32 %r4, [depot+4];
add.u32 %r4, %r4, %r3;
DONE:
st.param.u32 [func_retval0], %r4;
ret;
}
.func (.param .b32 func_retval0) odd (.param .b32 odd_param_0)
{
.reg .b32 %r<9>;
ld.param.u32 %r1, [odd_param_0];
sub.u32 %r2, %r1, 1;
{ .param .b32 param0; .param .b32 retval0;
st.param.b32 [param0], %r2;
call.uni (retval0), even, (param0);
ld.param.b32 %r3, [retval0]; }
add.u32 %r4, %r1, %r3;
st.param.u32 [func_retval0], %r4;
ret;
}
.extern .func (.param .b32 func_retval0) elsewhere (.param .b32 elsewhere_param_0);
.extern .func (.param .b32 func_retval0) __cudaCDP2LaunchDeviceV2 (.param .b32 launch_param_0);
.global .align 8 .u64 table[2] = {plus_ten, odd_or_half};
.visible .entry k(.param .u64 out)
{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
ld.param.u64 %rd0, [out];
mov.u32 %r0, %tid.x;
mul.wide.u32 %rd1, %r0, 4;
add.s64 %rd2, %rd0, %rd1;
"""
CALL = """
{ .param .b32 param0; .param .b32 retval0;
st.param.b32 [param0], %r0;
call.uni (retval0), NAME, (param0);
ld.param.b32 %r5, [retval0]; }
"""
END = "st.global.u32 [%rd2], %r5;\nret;\n}\n"
ALIKE = "PROTO: .callprototype (.param .b32 _) _ (.param .b32 _);\n"


def half_or_ten(value: int) -> int:
    return value + 10 if value % 2 else value // 2


def both(body: str, threads: int = 40, schedule: int = 0) -> tuple[list[str], list[int]]:
    out: NDArray[np.uint32] = np.zeros(threads, np.uint32)
    geometry = Geometry((1, 1, 1), (threads, 1, 1))
    kernel = bound_text(FUNCTIONS + body + END, {"out": out}, geometry)
    run, _ = run_both(kernel, Schedule(schedule))
    at = kernel.buffers["out"]
    left = run.machine.memory.global_.bytes[at.start : at.start + at.size].view(np.uint32)
    return [f.kind for f in run.findings], left.tolist()


@pytest.mark.parametrize("schedule", range(3))
def test_lanes_that_leave_a_function_early_reconverge_behind_its_call(schedule: int) -> None:
    body = CALL.replace("NAME", "odd_or_half") + "bar.warp.sync 0xffffffff;\n"
    assert both(body, 64, schedule) == ([], [half_or_ten(i) for i in range(64)])


def test_each_call_has_registers_and_local_memory_of_its_own() -> None:
    body = CALL.replace("NAME", "odd_or_half") + "mov.u32 %r6, %r5;\nadd.u32 %r0, %r0, 2;\n"
    body += CALL.replace("NAME", "odd_or_half") + "add.u32 %r5, %r5, %r6;\n"
    assert both(body) == ([], [half_or_ten(i) + half_or_ten(i + 2) for i in range(40)])


def test_a_guarded_call_is_made_by_the_lanes_that_its_guard_holds_for() -> None:
    body = "mov.u32 %r5, 7;\nsetp.lt.u32 %p1, %r0, 5;\n"
    body += "{ .param .b32 param0; .param .b32 retval0;\nst.param.b32 [param0], %r0;\n"
    body += "@%p1 call (retval0), plus_ten, (param0);\n@%p1 ld.param.b32 %r5, [retval0]; }\n"
    assert both(body) == ([], [i + 10 if i < 5 else 7 for i in range(40)])


def test_lanes_call_different_functions_by_their_addresses() -> None:
    body = ALIKE + "and.b32 %r1, %r0, 1;\nmul.wide.u32 %rd3, %r1, 8;\nmov.u64 %rd4, table;\n"
    body += "add.s64 %rd4, %rd4, %rd3;\nld.global.u64 %rd5, [%rd4];\nadd.u32 %r0, %r0, 4;\n"
    body += CALL.replace("NAME", "%rd5").replace("(param0)", "(param0), PROTO")
    expected = [half_or_ten(i + 4) if i % 2 else i + 14 for i in range(40)]
    assert both(body) == ([], expected)


def test_a_call_of_what_is_no_function_is_named() -> None:
    body = ALIKE + "mov.u64 %rd5, 64;\n"
    body += CALL.replace("NAME", "%rd5").replace("(param0)", "(param0), PROTO")
    assert both(body)[0] == ["barrier-misuse"]


def test_a_function_without_ptx_is_refused_by_its_name() -> None:
    with pytest.raises(UnsupportedKernel, match="call of elsewhere: the program has no PTX of it"):
        both(CALL.replace("NAME", "elsewhere"))


def test_a_launch_from_a_kernel_is_refused_as_what_it_is() -> None:
    with pytest.raises(UnsupportedKernel, match="dynamic parallelism"):
        both(CALL.replace("NAME", "__cudaCDP2LaunchDeviceV2"))


def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@pytest.mark.parametrize("schedule", range(2))
def test_each_lane_recurs_as_deep_as_its_value_says(schedule: int) -> None:
    body = "and.b32 %r0, %r0, 7;\n" + CALL.replace("NAME", "fibonacci")
    body += "bar.warp.sync 0xffffffff;\n"
    assert both(body, 40, schedule) == ([], [fibonacci(i % 8) for i in range(40)])


def test_two_functions_that_call_each_other_keep_their_variables() -> None:
    # even(n) is n + the local value it stored before odd(n - 1) was called, and so on downwards.
    body = "and.b32 %r0, %r0, 6;\n" + CALL.replace("NAME", "even")
    assert both(body) == ([], [sum(range((i & 6) + 1)) for i in range(40)])


def test_two_calls_of_a_recursive_function_are_two_recursions() -> None:
    body = "and.b32 %r0, %r0, 6;\n" + CALL.replace("NAME", "fibonacci") + "mov.u32 %r6, %r5;\n"
    body += CALL.replace("NAME", "even") + "add.u32 %r5, %r5, %r6;\n"
    expected = [fibonacci(i & 6) + sum(range((i & 6) + 1)) for i in range(40)]
    assert both(body) == ([], expected)


def test_a_recursion_without_end_is_ended_where_the_stack_is_full() -> None:
    assert set(both(CALL.replace("NAME", "itself"))[0]) == {"out-of-bounds"}
