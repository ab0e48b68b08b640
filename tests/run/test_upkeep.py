"""A remote's private key is named so that it is found from any folder later."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.errors import ConfigError
from kernelrig.run.upkeep import key_path


def test_a_private_key_is_named_by_a_path_that_every_folder_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/rental").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path / "keys")
    assert key_path("rental") == str(tmp_path / "keys/rental")
    assert key_path("~/keys/rental") == "~/keys/rental"
    assert key_path("") == ""
    with pytest.raises(ConfigError, match=r"^no file 'retnal'; --identity-file is the private key"):
        key_path("retnal")
