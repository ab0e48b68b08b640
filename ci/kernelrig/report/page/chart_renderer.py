"""Run in a process of its own: draws Vega-Lite specifications as SVG.

    python -I chart_renderer.py LIBRARY_FOLDER SPECIFICATIONS OUTPUT

Vega is JavaScript in a native library: it gets limits, may crash, and reaches no address. Standard
library alone, since nothing of kernelrig is on this process's path.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys

CPU_S = 60
OUTPUT_BYTES = 64 << 20
VEGA_LITE = "5.20"
"""The grammar's version: the library has several, and its default is the newest."""


def main(library: str, specifications: str, output: str) -> None:
    for limit, value in (
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_FSIZE, OUTPUT_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    sys.path.insert(0, library)
    vl_convert = importlib.import_module("vl_convert")
    with open(specifications, encoding="utf-8") as f:  # noqa: PTH123 - nothing but the library's needs
        specs = json.load(f)
    drawn = [
        vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE, allowed_base_urls=[])
        for spec in specs
    ]
    with open(output, "w", encoding="utf-8") as f:  # noqa: PTH123
        json.dump(drawn, f)


if __name__ == "__main__":
    main(*sys.argv[1:])
