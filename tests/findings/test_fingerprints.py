"""A fingerprint stays where lines move, and is that of one place."""

from __future__ import annotations

from dataclasses import dataclass

from kernelrig.findings import frame_parts
from kernelrig.model.frame import Frame

SOURCE = """\
__global__ void gemm() {
  tile[lane] = in[lane];
  other();
  tile[lane]  =  in[lane];
}
"""


@dataclass(frozen=True)
class Text:
    """A source file as it was compiled."""

    text: str

    def line(self, file: str, line: int) -> str:
        assert file == "gemm.cu"
        lines = self.text.split("\n")
        return lines[line - 1] if 0 < line <= len(lines) else ""


def at(line: int, text: str = SOURCE) -> tuple[str, ...]:
    return frame_parts(Frame("gemm.cu", line, "gemm"), Text(text))


def test_a_moved_line_is_the_same_place() -> None:
    assert at(2) == at(4, f"// one\n// two\n{SOURCE}")
    assert at(4) == at(5, f"// one\n{SOURCE}")


def test_a_line_that_reads_like_one_above_is_another_place() -> None:
    """Also where only the second one is found: a review of the first must not cover it."""
    assert at(2) != at(4)
    assert at(2) == at(2, SOURCE.replace("  =  ", " += "))
