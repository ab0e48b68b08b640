"""A finding: one fault as a report names it, whichever tool found it."""

from __future__ import annotations

from dataclasses import dataclass

from kernelrig.model.frame import Frame


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault that a tool reported; `fingerprint` survives a rerun and a moved line.

    `file` and `line` are where a report points: `kernelrig.findings.location` chose them among
    `frames`, the inlined chain of the instruction, innermost first. `related` are other lines that
    take part, as the other access of a race; `objects` the barriers and buffers by name.
    `source_line` is the text of the line, `fix` the suggested fix, `section` that of PTX ISA.
    `count` is how often it was seen; `schedules`, `warps` and `ctas` how many distinct ones saw it,
    0 where the tool does not count them. `explained_by` is the fingerprint of the finding that
    caused this one, `accepted` the reviewed reason for which it is no failure.
    """

    tool: str
    kind: str
    message: str
    kernel: str = ""
    file: str = ""
    line: int = 0
    threads: str = ""
    count: int = 1
    fingerprint: str = ""
    accepted: str = ""
    frames: tuple[Frame, ...] = ()
    related: tuple[Frame, ...] = ()
    source_line: str = ""
    fix: str = ""
    rule: str = ""
    section: str = ""
    objects: tuple[str, ...] = ()
    schedules: int = 0
    warps: int = 0
    ctas: int = 0
    explained_by: str = ""

    @property
    def times(self) -> str:
        """How often it was seen, "" for once. What counts schedules counts each lane of each."""
        if self.count < 2:
            return ""
        over = " over all lanes and schedules" if self.schedules else ""
        return f"{self.count} times{over}"

    @property
    def at(self) -> str:
        """`kernel/gemm.cu:304`, the file alone without a line, empty without a file."""
        return f"{self.file}:{self.line}" if self.line else self.file
