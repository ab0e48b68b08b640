"""Arithmetic as PTX has it: the arrays of a register, rounding, floats, atomics."""
