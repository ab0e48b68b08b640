"""What measurements inside a kernel mean: phase clocks, and counters by instruction.

Nothing here starts a process, reads a run directory or judges a run: text and records go in,
records of `model` come out.
"""
