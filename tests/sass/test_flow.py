"""The control-flow graph: as nvdisasm draws it, and honest about calls, traps and tables."""

from __future__ import annotations

import re

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.sass import control_flow, parse_sass

from tests.sass.text import edges, flow_of
from tests.sass_fixture import Probe

GUARDED = pytest.param("guarded_100a", marks=pytest.mark.long)  # roles_100a, and checks between
ODD_90A = pytest.param("odd_90a", marks=pytest.mark.long)  # odd_100a of the older GPU
PROBES = ("roles_100a", GUARDED, "roles_90a", "odd_100a", ODD_90A)


def drawn(dot: str) -> dict[str, set[tuple[int, int]]]:
    """Return the edges of `nvdisasm -bbcfg -poff`, from a last instruction to a first one."""
    graphs = {}
    for part in dot.split('subgraph "cluster_')[1:]:
        first, last = {}, {}
        for name, label in re.findall(r'^"([^"]+)"\n\[label="(.*?)"\]$', part, re.M | re.S):
            at = [
                int(a, 16)
                for a in re.findall(r"(?:>|\\l\|?(?:<exit\d+>)?)([0-9a-f]{4,}):\\ ", label)
            ]
            first[name], last[name] = at[0], at[-1]
        arrows = re.findall(r'^"([^"]+)":\S+ -> "([^"]+)":\S+', part, re.M)
        graphs[part.split('"')[0]] = {(last[a], first[b]) for a, b in arrows}
    return graphs


@pytest.mark.parametrize("name", PROBES)
def test_the_graph_is_the_one_that_nvdisasm_draws(
    name: str, request: pytest.FixtureRequest
) -> None:
    probe: Probe = request.getfixturevalue(name)
    module = probe.module
    graphs = drawn(probe.disassemble("-bbcfg", "-poff"))
    assert {f.name for f in module.functions} == set(graphs)
    for function, arrows in graphs.items():
        flow = control_flow(module, function)
        ours = {
            (flow.blocks[a].last.address, b): said["kind"] for a, b, said in flow.whole.edges.data()
        }
        # It cuts blocks at labels that nobody branches to, and follows a recursive call.
        own = {a for a in arrows if not (a[1] == a[0] + 16 and a[1] not in flow.blocks)}
        own -= {a for a in own if flow.blocks.get(a[1]) and a[1] == flow.entry and a not in ours}
        assert own <= set(ours), function
        # It has no padding, and does not go on behind what never returns.
        more = {a: kind for a, kind in ours.items() if a not in own}
        pad = [a for a, kind in more.items() if kind in ("next", "taken")]
        live = {flow.blocks[b].last.address for b in flow.graph}
        assert [hex(a) for a, _ in pad if a in live] == [], function


def test_conditions_stand_in_the_guard_or_among_the_operands() -> None:
    flow = flow_of(
        "BRA.U !UP0, `(.L_x_1)",
        "@P0 BRA `(.L_x_1)",
        "BRA.DIV UR4, `(.L_x_1)",
        "@PT BRA `(.L_x_2)",
        ".L_x_1:",
        "@!P1 EXIT",
        ".L_x_2:",
        "EXIT",
    )
    assert edges(flow) == {
        (0, 4): "taken",
        (0, 1): "next",
        (1, 4): "taken",
        (1, 2): "next",
        (2, 4): "taken",
        (2, 3): "next",
        (3, 5): "taken",
        (4, 5): "next",
    }


def test_a_jump_table_goes_where_nvdisasm_says_it_does() -> None:
    flow = flow_of(
        'BRX R4 -0x120   (*"BRANCH_TARGETS .L_x_1,.L_x_2"*)',
        ".L_x_1:",
        "EXIT",
        ".L_x_2:",
        "EXIT",
    )
    assert edges(flow) == {(0, 1): "taken", (0, 2): "taken"}


def test_threads_that_were_gathered_part_at_the_label() -> None:
    flow = flow_of(
        "WARPSYNC.COLLECTIVE R4, `(.L_x_1)",
        "ELECT P0, UR79, PT",
        "ENDCOLLECTIVE",
        "EXIT",
        ".L_x_1:",
        "EXIT",
    )
    assert edges(flow) == {(0, 4): "taken"}


def test_a_call_comes_back_to_the_address_that_was_put_down_for_it() -> None:
    lines = (
        "MOV R2, 0x40",
        "CALL.REL.NOINC `($slow)",
        "MOV R4, 0x30",
        "EXIT",
        ".L_x_1:",
        "EXIT",
        "$slow():",
        "IMAD.MOV.U32 R8, RZ, RZ, R2",
        "RET.REL.NODEC R8 `(f)",
    )
    flow = flow_of(*lines)
    assert edges(flow) == {(0, 4): "returned"}
    assert list(flow.graph) == [0, 0x40]
    assert [f.function.name for f in flow.called(flow.graph)] == ["$slow"]


def test_what_always_traps_does_not_come_back() -> None:
    flow = flow_of(
        "MOV R2, 0x20",
        "CALL.REL.NOINC `($guardrail)",
        "BPT.TRAP 0x1",
        "EXIT",
        "$guardrail():",
        "BPT.TRAP 0x1",
        "MOV R3, 0x0",
        "RET.REL.NODEC R2 `(f)",
    )
    assert edges(flow) == {(0, 2): "trapped", (2, 3): "trapped"}
    assert list(flow.graph) == [0]


CALLS_DRIVER = (
    "MOV R0, 0x30",
    "LDC.64 R2, c[0x4][R0]",
    "LEPC R20, `(.L_x_1)",
    "CALL.ABS.NOINC R2",
    ".L_x_1:",
    "EXIT",
)


def test_a_failed_assertion_does_not_come_back() -> None:
    assert edges(flow_of(*CALLS_DRIVER, externs=("__assertfail",))) == {(0, 4): "trapped"}


@pytest.mark.parametrize("externs", [("vprintf",), ("__assertfail", "vprintf")])
def test_of_several_functions_of_the_driver_nobody_says_which_is_called(
    externs: tuple[str, ...],
) -> None:
    assert edges(flow_of(*CALLS_DRIVER, externs=externs)) == {(0, 4): "returned"}


def test_a_call_through_a_register_comes_back_by_the_calling_convention(odd_100a: Probe) -> None:
    flow = odd_100a.flow("calls_through_register")
    assert [b.callee for b in flow.blocks.values()] == ["?", ""]
    assert [said["kind"] for _, _, said in flow.graph.edges.data()] == ["returned"]


def test_a_failed_assertion_of_a_real_kernel_joins_nothing_behind_it(odd_100a: Probe) -> None:
    flow = odd_100a.flow("asserts")
    call = next(b for b, block in flow.blocks.items() if block.callee == "__assertfail")
    assert flow.whole.out_degree(call) == 1
    assert flow.graph.out_degree(call) == 0


def test_recursion_ends_and_comes_back(odd_100a: Probe) -> None:
    flow = odd_100a.flow("recurses")
    (called,) = flow.called(flow.graph)
    assert called.function.name == "$recurses$_Z9fibonacciiPi"
    assert called.returns


def test_guardrails_of_tensor_memory_end_the_paths_they_stand_on(guarded_100a: Probe) -> None:
    flow = guarded_100a.flow("right")
    traps = {n for n in flow.callees if "guardrail_trap" in n}
    helpers = {n for n in flow.callees if "guardrail_trap" not in n}
    assert len(traps) >= 7
    assert [n.partition("$__cuda_")[2] for n in helpers] == [
        "sm10x_create_mask_from_bit_idx_and_alloc_size_v1"
    ]
    for block, held in flow.blocks.items():
        if held.callee in traps:
            assert block not in flow.graph or flow.graph.out_degree(block) == 0


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ("BRX R4 -0x120", "EXIT"),
            "cannot follow 'BRX R4 -0x120' at 0x0000: its targets are not known to nvdisasm",
        ),
        (("BRA R4", "EXIT"), "cannot follow 'BRA R4' at 0x0000: its target is not a label"),
        (
            ("@P0 BRA `(.L_x_9)", "EXIT"),
            "cannot follow '@P0 BRA `(.L_x_9)' at 0x0000: no label '.L_x_9' in its function",
        ),
        (
            (".L_x_1:", "HOP `(.L_x_1)", "EXIT"),
            "cannot follow 'HOP `(.L_x_1)' at 0x0000: it names a label and is not a known branch",
        ),
        (
            ("BSSY B0, `(.L_x_1)", "BSYNC B0", "EXIT", ".L_x_1:", "EXIT"),
            "'BSYNC B0' at 0x0010 is not before the label of a BSSY",
        ),
        (("ENDCOLLECTIVE", "EXIT"), "ENDCOLLECTIVE at 0x0000 ends nothing"),
        (
            ("CALL.REL.NOINC `($g)", "EXIT", "$g():", "RET.REL.NODEC R2 `(f)"),
            "cannot follow 'CALL.REL.NOINC `($g)' at 0x0000: no return address in R2",
        ),
        (("LDC R1, c[0x0][0x37c]",), "'f' runs off its end from 0x0000"),
    ],
)
def test_what_cannot_be_followed_is_refused(lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(ProtocolError) as e:
        flow_of(*lines)
    assert e.value.message == message


def test_padding_behind_the_end_may_run_off_it() -> None:
    assert list(flow_of("EXIT", "NOP").graph) == [0]


def test_a_table_whose_targets_are_withheld_is_refused(odd_100a: Probe) -> None:
    # `nvdisasm -no-dataflow` writes no targets, and no other tool knows them
    bare = re.sub(r"\(\*.*?\*\)", "", odd_100a.text)
    with pytest.raises(ProtocolError, match="cannot follow 'BRX R4"):
        control_flow(parse_sass(bare), "switches")
