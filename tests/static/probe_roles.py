"""The roles of the probes, as kernels.yaml would name them."""

from __future__ import annotations

from kernelrig.model import Role

BLACKWELL = {
    "load": Role("load", ("UTMALDG",)),
    "mma": Role("mma", ("UTCQMMA", "UTCBAR")),
    "epilogue": Role("epilogue", ("LDTM", "UTMASTG")),
}
HOPPER = {
    "load": Role("load", ("UTMALDG",)),
    "consumer": Role("consumer", ("QGMMA", "UTMASTG")),
}
SMALL = {"load": Role("load", ("LOAD",)), "multiply": Role("multiply", ("MULTIPLY",))}
"""Of functions that a test writes down: their instructions are of no machine."""
