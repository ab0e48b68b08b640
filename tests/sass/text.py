"""Disassembly written down for one test: the lines of a function, addresses and frame are ours."""

from __future__ import annotations

from kernelrig.sass import Flow, control_flow, parse_sass


def sass_text(*lines: str, name: str = "f", externs: tuple[str, ...] = ()) -> str:
    """Return the text of nvdisasm for a function; a line ending in `:` is a label.

    `NAME():` begins a function that is called, in the same section.
    """
    called = [line.removesuffix("():") for line in lines if line.endswith("():")]
    text = [
        "\t.target\tsm_100a",
        f'\t.section\t.text.{name},"ax",@progbits',
        *(f"        .type           {each},@function" for each in (name, *called, *externs)),
        f"        .size           {name},(.L_x_end - {name})",
        f"{name}:",
        f".text.{name}:",
    ]
    address = 0
    for line in lines:
        if line.endswith(":"):
            text.append(line.replace("():", ":"))
        else:
            text.append(f"        /*{address:04x}*/                   {line} ;")
            address += 16
    return "\n".join([*text, ".L_x_end:", ""])


def flow_of(*lines: str, externs: tuple[str, ...] = ()) -> Flow:
    return control_flow(parse_sass(sass_text(*lines, externs=externs)), "f")


def edges(flow: Flow) -> dict[tuple[int, int], str]:
    """Return the edges of the whole graph by the numbers of the instructions, with their kinds."""
    return {(a // 16, b // 16): said["kind"].value for a, b, said in flow.whole.edges.data()}
