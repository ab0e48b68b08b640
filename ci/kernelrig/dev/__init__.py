"""Checks of this repository itself, `invoke test`: tests, lint, types, import contracts."""
