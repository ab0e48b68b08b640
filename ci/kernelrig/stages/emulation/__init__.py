"""Stages on the emulator: its command lines, its findings file, the verdicts."""
