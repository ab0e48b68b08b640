"""Amounts of memory as people read them."""


def shown_bytes(count: int) -> str:
    """`4 bytes`, or `11.8 GiB` from a MiB on."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"
