"""The CPU reference in NumPy: the inputs of a kernel, as harness and emulator make them, and its
expected outputs, with the tolerance that rounding allows.
"""
