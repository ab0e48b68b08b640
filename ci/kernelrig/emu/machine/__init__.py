"""The state of the emulated GPU and what changes it: warps, memory, barriers, the scheduler."""
