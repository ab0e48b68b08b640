"""All cases, by the family of rows they try."""

from __future__ import annotations

from tests.emu.instructions.case import Case
from tests.emu.instructions.choice import COMPARE, MOVE, WARP
from tests.emu.instructions.numbers import APPROXIMATE, CONVERT, FLOAT, HALF, MIXED
from tests.emu.instructions.scalar import BITS, INTEGER, LOGIC

FAMILIES: dict[str, tuple[Case, ...]] = {
    "integer": INTEGER, "bits": BITS, "logic": LOGIC, "float": FLOAT, "half": HALF, "mixed": MIXED,
    "convert": CONVERT, "compare": COMPARE, "move": MOVE, "warp": WARP, "approximate": APPROXIMATE,
}  # fmt: skip
