"""What is still billed: said at the end of every task."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

from kernelrig.rental.rental_file import Rental, open_rentals
from kernelrig.terminal.text import one_line


def still_billed(root: Path) -> tuple[str, ...]:
    """Return a sentence for each rental that is not known to be gone."""
    return tuple(_sentence(root, rental) for rental in open_rentals(root))


def _sentence(root: Path, rental: Rental | Path) -> str:
    if isinstance(rental, Path):
        place = rental.relative_to(root)
        return f"perhaps billed: {place} cannot be read: look for {rental.stem} at the provider"
    name, request = one_line(rental.remote), one_line(rental.request)
    since = f"since {one_line(rental.asked_utc)}{_so_far(rental)}"
    if rental.state == "asked":
        return (
            f"perhaps billed: remote '{name}' was asked for, and what became of it is not known,"
            f" {since} (request {request}); `invoke up {name}` looks for it,"
            f" `invoke down {name}` gives it back"
        )
    own = f"{one_line(rental.id)}, " if rental.id else ""
    return (
        f"still billed: remote '{name}' {since} ({own}request {request});"
        f" `invoke down {name}` gives it back"
    )


def _so_far(rental: Rental) -> str:
    try:
        began = datetime.fromisoformat(rental.asked_utc).timestamp()
    except ValueError:
        return ""
    minutes = (time.time() - began) / 60
    if minutes < 0:  # the clock was set back
        return ""
    price = rental.price_per_hour
    cost = "" if price is None else f", up to {price * minutes / 60:.2f} at {price:.2f} an hour"
    return f", {minutes:.0f} min{cost}"
