"""The stack of recursive calls, which each thread has in local memory."""

STACK = "stack of recursive calls"
STACK_BYTES = 8 << 10
"""Of a thread. A GPU gives cudaLimitStackSize bytes, 1024 unless the program asks for more."""
STACK_OVERFLOW = "stack overflow"
"""The name of what is called where it is full (isa/control.py)."""
