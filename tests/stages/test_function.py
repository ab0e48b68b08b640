"""A program is held to the function that kernels.yaml says its variant computes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from kernelrig.model import Function, Pattern, Stage, StageKind, StageRecord, Variant
from kernelrig.reference.expected import expected
from kernelrig.reference.inputs import bf16_values
from kernelrig.stages import Context, read_stage

from tests.stages import bench, outputs

STAGE = Stage("checksum", StageKind.CHECKSUM, case="full", patterns=(Pattern.INTEGER,))


def context(function: Function) -> Context:
    way = Variant("production", "siglip_vision", function=function)
    return bench.context(kernel=replace(bench.KERNEL, variants={"production": way}))


def read(folder: Path, content: dict[str, Any], function: Function) -> StageRecord:
    bench.write(folder, {"integer-0.json": content})
    ctx = context(function)
    ended = bench.ended(STAGE, bench.exited("integer-0", 0))
    return read_stage(STAGE, bench.job(STAGE, ctx), ended, folder, ctx)


def product() -> dict[str, Any]:
    """Return the result of a program that adds no table, and says so."""
    good = bench.result("check", "integer") | {"function": "product"}
    places = [(row, column) for row, column, _ in good["sampled"]]
    wanted = expected(
        *(np.array(words) for words in zip(*places, strict=True)),
        pattern=Pattern.INTEGER,
        seed=0,
        accum_tol=bench.TOL,
        n=outputs.N,
        k=outputs.K,
        rows_per_image=outputs.ROWS_PER_IMAGE,
        function=Function.PRODUCT,
    )
    bits = [int(b) for b in wanted.bits]
    own = {"sampled": [[r, c, b] for (r, c), b in zip(places, bits, strict=True)]}
    return good | own | {"checksum": float(bf16_values(wanted.bits)[:1024].sum())}


def test_the_product_alone_is_right_where_it_was_promised(tmp_path: Path) -> None:
    record = read(tmp_path, product(), Function.PRODUCT)
    assert record.verdict.summary == "all 1792 elements right, 1792 recomputed"


def test_a_program_that_says_it_computes_something_else_is_not_believed(tmp_path: Path) -> None:
    record = read(tmp_path, product(), Function.ROUND_THEN_ADD)
    assert record.verdict.summary == ("the result is for function product, expected round_then_add")


def test_a_program_that_only_claims_the_function_is_seen(tmp_path: Path) -> None:
    claimed = product() | {"function": "round_then_add"}
    record = read(tmp_path, claimed, Function.ROUND_THEN_ADD)
    assert "recomputed from the hash" in record.verdict.summary
