"""Seeds of inputs: a plan names them by number, a run on a device draws what they stand for."""

from __future__ import annotations

import hashlib
import secrets

DRAWN_BITS = 32
SEED_BYTES = 6
"""48 bits: a whole number in every reader of JSON, with room for the sets of inputs behind it."""


def draw_seed() -> int:
    """Return a run's own seed: a kernel that knows the inputs of earlier runs knows nothing."""
    return secrets.randbits(DRAWN_BITS)


def input_seed(drawn: int | None, number: int) -> int:
    """Return the seed of the inputs that a plan names by `number`, in a run that drew `drawn`.

    It is the first SEED_BYTES bytes of SHA-256 of `DRAWN/NUMBER` in decimal digits, big-endian.
    A run that drew none (an emulated one, or one of before seeds were drawn) uses the number.
    """
    if drawn is None:
        return number
    digest = hashlib.sha256(f"{drawn}/{number}".encode()).digest()
    return int.from_bytes(digest[:SEED_BYTES], "big")
