"""The roles of the probes, as kernels.yaml would name them."""

from __future__ import annotations

from kernelrig.model import Role

BLACKWELL = {
    "loader": Role("loader", ("UTMALDG",)),
    "product": Role("product", ("UTCQMMA", "UTCBAR")),
    "epilogue": Role("epilogue", ("LDTM", "UTMASTG")),
}
HOPPER = {
    "loader": Role("loader", ("UTMALDG",)),
    "consumer": Role("consumer", ("QGMMA", "UTMASTG")),
}
SMALL = {"load": Role("load", ("LOAD",)), "multiply": Role("multiply", ("MULTIPLY",))}
"""Of functions that a test writes down: their instructions are of no machine."""
