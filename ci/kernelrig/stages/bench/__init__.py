"""The bench stage: processes that measure in slots, in turn, on one GPU."""
