"""Fixtures that several areas share come from the plugins named here."""

from __future__ import annotations

pytest_plugins = ("tests.remote.sshd_fixture",)
