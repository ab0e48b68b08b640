"""The bench stage: processes that take turns on one GPU."""
