"""The picture: every block is in it, in its role's colour and its loop's box."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kernelrig.static.role_graph import part_roles
from kernelrig.static.role_graph_dot import role_dot, write_picture

from tests.sass.text import flow_of
from tests.sass_fixture import Probe
from tests.static.probe_roles import BLACKWELL, HOPPER, SMALL

NODE = re.compile(r'^"(0x[0-9a-f]+)" \[fillcolor="([^"]+)"', re.M)
ARROW = re.compile(r'^"(0x[0-9a-f]+)" -> "(0x[0-9a-f]+)"', re.M)
PICTURE = """digraph "f" {
graph [rankdir=TB, ranksep=0.3, fontname="Helvetica", labelloc=t, label="two \\"roles\\""];
node [shape=box, style=filled, fontname="Helvetica", fontsize=10, margin="0.08,0.05"];
edge [fontname="Helvetica", fontsize=9, arrowsize=0.6];
subgraph "cluster_load" {
label="load: 6 instructions"; fontsize=16;
style="rounded"; color="#888888";
"0x20" [fillcolor="#9ad0f5", label="0x20, 5 instr\\lLOAD x2\\lwait :0\\lmay trap\\l"];
"0x70" [fillcolor="#9ad0f5", label="0x70, 1 instr\\l"];
}
subgraph "cluster_multiply" {
label="multiply: 2 instructions"; fontsize=16;
style="rounded"; color="#888888";
"0x80" [fillcolor="#f9c784", label="0x80, 2 instr\\lMULTIPLY\\l"];
}
subgraph "cluster_dispatch" {
label="dispatch: 2 instructions"; fontsize=16;
style="rounded"; color="#888888";
"0x0" [fillcolor="white", penwidth=3, label="0x0, 2 instr\\l"];
}
"0x0" -> "0x80" [label="!P0"];
"0x0" -> "0x20";
"0x20" -> "0x20" [label="P1", penwidth=2];
"0x20" -> "0x70";
}
"""


def test_a_small_graph_is_drawn_like_this() -> None:
    flow = flow_of(
        "NOP",
        "@!P0 BRA `(.L_x_1)",
        ".L_x_0:",
        "LOAD R0",
        "SYNCS.PHASECHK.TRANS64 P1, [R8], R7",
        "@P2 BRA `(.L_x_2)",
        "LOAD R0",
        "@P1 BRA `(.L_x_0)",
        "EXIT",
        ".L_x_1:",
        "MULTIPLY R0",
        "EXIT",
        ".L_x_2:",
        "BPT.TRAP 0x1",
    )
    assert role_dot(part_roles(flow, SMALL), "f.cu", 'two "roles"') == PICTURE


@pytest.mark.parametrize(
    ("probe", "function"),
    [
        ("roles_100a", "right"),
        ("roles_100a", "one_loop"),
        ("guarded_100a", "right"),
        ("roles_90a", "right"),
    ],
)
def test_every_block_but_traps_is_in_one_node_and_every_arrow_joins_two(
    probe: str, function: str, request: pytest.FixtureRequest
) -> None:
    compiled: Probe = request.getfixturevalue(probe)
    graph = part_roles(compiled.flow(function), HOPPER if "90" in probe else BLACKWELL)
    text = role_dot(graph, "roles.cu")
    nodes = [name for name, _ in NODE.findall(text)]
    assert len(nodes) == len(set(nodes))
    assert {end for arrow in ARROW.findall(text) for end in arrow} <= set(nodes)
    told = sum(int(n) for n in re.findall(r'label="0x[0-9a-f]+, (\d+) instr', text))
    drawn = set(graph.flow.graph) - graph.traps
    assert told == len(list(graph.flow.within(drawn)))
    assert text.count("{") == text.count("}")
    assert text == role_dot(graph, "roles.cu"), "the same graph is the same text"


def test_roles_have_a_colour_each_and_shared_blocks_one_that_warns(roles_100a: Probe) -> None:
    text = role_dot(part_roles(roles_100a.flow("right"), BLACKWELL), "roles_sm100a.cu")
    colours = {colour for _, colour in NODE.findall(text)}
    assert colours == {"white", "#d8d8d8", "#9ad0f5", "#f9c784", "#9fdcc0"}
    text = role_dot(part_roles(roles_100a.flow("one_loop"), BLACKWELL), "roles_sm100a.cu")
    assert "#ff6b6b" in {colour for _, colour in NODE.findall(text)}


def test_loops_that_do_something_are_boxed_with_their_line(roles_100a: Probe) -> None:
    text = role_dot(part_roles(roles_100a.flow("right"), BLACKWELL), "roles_sm100a.cu")
    assert re.search(r'label="loop at :43, \d+ instructions"', text)
    assert re.search(r'label="loop at :50, \d+ instructions"', text)
    assert re.search(r'label="loop at :62, \d+ instructions"', text)


def test_a_kernel_with_a_hundred_guardrails_is_no_larger_than_without(
    roles_100a: Probe, guarded_100a: Probe
) -> None:
    sizes = []
    for probe in (roles_100a, guarded_100a):
        graph = part_roles(probe.flow("right"), BLACKWELL)
        sizes.append((len(graph.flow.blocks), len(NODE.findall(role_dot(graph, "roles.cu")))))
    assert sizes[1][0] > 1.5 * sizes[0][0]
    assert sizes[1][1] < 1.2 * sizes[0][1]


@pytest.fixture
def graphviz(tmp_path: Path) -> Path:
    """A program that takes the arguments of graphviz, and draws as little as can be."""
    program = tmp_path / "dot"
    program.write_text(
        '#!/bin/sh\n[ "$1" = -Tsvg ] && [ "$2" = -o ] && [ -s "$4" ] && echo "<svg/>" > "$3"\n'
    )
    program.chmod(0o755)
    return program


def test_with_graphviz_there_is_a_picture_too(tmp_path: Path, graphviz: Path) -> None:
    written = write_picture("digraph {}", tmp_path / "roles-f", str(graphviz))
    assert [path.name for path in written] == ["roles-f.dot", "roles-f.svg"]
    assert (tmp_path / "roles-f.dot").read_text() == "digraph {}"
    assert (tmp_path / "roles-f.svg").read_text() == "<svg/>\n"


def test_without_graphviz_there_is_the_text(tmp_path: Path) -> None:
    written = write_picture("digraph {}", tmp_path / "roles-f", "no-such-program")
    assert [path.name for path in written] == ["roles-f.dot"]


def test_a_graphviz_that_gives_up_leaves_the_text(tmp_path: Path, graphviz: Path) -> None:
    graphviz.write_text("#!/bin/sh\nexit 1\n")
    written = write_picture("digraph {}", tmp_path / "roles-f", str(graphviz))
    assert [path.name for path in written] == ["roles-f.dot"]
