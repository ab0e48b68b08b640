"""Operands and sums of the tensor cores: descriptors, layouts in shared memory, numerics."""
