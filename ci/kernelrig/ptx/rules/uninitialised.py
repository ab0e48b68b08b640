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
        "uninitialised-not-used",
        "",
        "shared and tensor memory is written before it is read",
        "nothing uses the value: no result follows from it",
        "write it, or do not read it, if more than a tail that nobody needs is read",
        severity="warning",
    ),
    IsaRule(
        "uninitialised-register",
        "",
        "a register whose value is used was written, in every lane that uses it",
        "it holds anything: what ptxas put there before",
        "give the variable a value on every way that leads here",
    ),
    IsaRule(
        "register-not-written",
        "",
        "a register is written before it is read",
        "something is computed of it that nothing uses",
        "give the variable a value, or do not read it",
        severity="warning",
    ),
    IsaRule(
        "uninitialised-choice",
        "",
        "what a thread stores into shared memory, and a branch compares, was written",
        "what is used is a value that the program computed, and such a one said only which: the"
        " merges of Thrust compare keys behind the last of a tile, and go on alike either way",
        "give the variable a value on every way that leads here",
        severity="warning",
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
        "what tcgen05.ld brings into registers that are used was written",
        "a load may bring more than is wanted: with 64 rows half of the lanes hold nothing",
        "wait for the product that writes these columns, and use only lanes that it wrote",
    ),
    IsaRule(
        "uninitialised-operand",
        "9.7.16.10",
        "rows of A in tensor memory whose products are used were written",
        "each row of D follows from the row of A: those that nobody uses may hold anything",
        "store all rows of A that are used, and let tcgen05.wait::st and the arrive come first",
    ),
    IsaRule(
        "output-not-written",
        "",
        "the grid writes all of its output",
        "the rest keeps what was there",
        "cover all of the output, the last tile included",
    ),
)
