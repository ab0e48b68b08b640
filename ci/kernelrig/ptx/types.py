"""The closed sets of PTX: types, state spaces, special registers."""

from __future__ import annotations

import re

BYTES: dict[str, int] = {
    **{f"{kind}{bits}": bits // 8 for kind in "bsu" for bits in (8, 16, 32, 64)},
    **{"b128": 16, "f16": 2, "f32": 4, "f64": 8, "bf16": 2, "f16x2": 4, "bf16x2": 4},
    **{"pred": 0, "texref": 8, "samplerref": 8, "surfref": 8},
}
"""What a declaration may say, and the bytes that it takes."""

SPACES = frozenset({"reg", "sreg", "const", "global", "local", "param", "shared", "tex"})
LINKAGE = frozenset({"extern", "visible", "weak", "common"})

_AXES = frozenset("xyzw")
_VECTOR = re.compile(r"n?(tid|ctaid|clusterid)|cluster_n?ctaid")
_SCALAR = re.compile(
    r"laneid|n?warpid|n?smid|gridid|cluster_n?ctarank|lanemask_(eq|le|lt|ge|gt)"
    r"|clock(_hi|64)?|globaltimer(_lo|_hi)?|pm[0-7](_64)?|envreg(3[01]|[12]?\d)"
    r"|(total|dynamic|aggr)_smem_size|reserved_smem_offset_(begin|end|cap|[01])"
    r"|is_explicit_cluster|current_graph_exec"
)

PARTS = frozenset(
    [*"xyzwrgba", "h0", "h1", *(f"b{i}" for i in range(8))]
    + [f"{kind}{i}{j}" for kind in "bh" for i in range(8) for j in range(8)]
    + [f"b{n:04o}" for n in range(8**4)]
    + [f"b{n:03o}" for n in range(4**4)]
)
"""What may stand behind the dot of a register: part of a vector, or bytes of a video operand."""


def is_special(name: str, part: str) -> bool:
    """Return whether `%name.part` is a special register of PTX."""
    if part:
        return part in _AXES and bool(_VECTOR.fullmatch(name))
    return bool(_VECTOR.fullmatch(name) or _SCALAR.fullmatch(name))
