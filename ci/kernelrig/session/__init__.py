"""Sessions: entries of a file, carried out back to back on one host or on several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.session.entry_queue import run_session
    from kernelrig.session.session_choice import SessionRequest
    from kernelrig.session.session_forecast import describe_session
    from kernelrig.session.session_reports import render_session

__all__ = ["SessionRequest", "describe_session", "render_session", "run_session"]

__getattr__ = lazy_exports(__name__)
