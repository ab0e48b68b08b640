"""What a kernel reads and writes: memory is written before it is read, and all of the output."""

from __future__ import annotations

from kernelrig.ptx.rules.row import IsaRule

VALUE_RULES = (
    IsaRule(
        "uninitialised-read",
        "",
        "memory is written before it is read",
        "it holds anything",
        "write it, or fill it before the launch",
    ),
    IsaRule(
        "uninitialised-shared-read",
        "",
        "shared memory is written before it is read",
        "it holds what the CTA before it left there",
        "write it, or wait for the copy that brings it, before the read",
    ),
    IsaRule(
        "uninitialised-padding",
        "",
        "all bytes of an integer are written before it is read",
        "a compiler copies the padding of a structure along with what it holds: the first byte was"
        " written, and others were not, or the first half of each 8 bytes of something wider",
        "write them, if they are more than padding",
        severity="warning",
    ),
    IsaRule(
        "uninitialised-local-read",
        "",
        "local memory is written before it is read",
        "a compiler copies the padding of a structure along with what it holds",
        "initialise the variable, if it is one",
        severity="warning",
    ),
    IsaRule(
        "uninitialised-sum",
        "9.7.16.10",
        "a product that adds to D adds to what a product wrote",
        "tensor memory holds anything at first",
        "let the first product of a sum not add to D",
    ),
    IsaRule(
        "uninitialised-tensor-load",
        "9.7.16.8",
        "tcgen05.ld reads columns that were written",
        "a load may bring more than is wanted: with 64 rows half of the lanes hold nothing",
        "wait for the product that writes these columns, and load only columns that it wrote",
        severity="warning",
    ),
    IsaRule(
        "output-not-written",
        "",
        "the grid writes all of its output",
        "the rest keeps what was there",
        "cover all of the output, the last tile included",
    ),
)
