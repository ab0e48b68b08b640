"""The result cache: a good result, such as that of a tool's self-test, is reused by later runs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

from .disk import safe_relative, sha256_head, write_file
from .journal import Ending, utc_now
from .refusal import Json, Refused
from .stage_folder import StageFolder


def kept_ending(record: Json) -> Ending:
    """Return how the command of a cached result ended; ValueError for what no agent has written."""
    code, seconds, detail, utc = (record[key] for key in ("exit", "seconds", "detail", "utc"))
    texts = isinstance(detail, str) and isinstance(utc, str)
    if type(code) is not int or type(seconds) not in (int, float) or not texts:
        raise ValueError("a cached result has no good exit code, seconds, detail or time")
    ending = Ending("exit", detail)
    ending.exit, ending.seconds, ending.reused_from = code, seconds, utc
    return ending


class ResultCache:
    """Good results of commands with a `cache_key`, stored with their files for later runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, command: Json) -> Path:
        return self.folder / hashlib.sha256(command["cache_key"].encode()).hexdigest()[:32]

    def reuse(self, command: Json, folder: StageFolder) -> Ending | None:
        """Copy the files of an earlier good result with this key; None without a whole one."""
        kept = self.path(command)
        try:
            record = json.loads((kept / "result.json").read_bytes())
            ending = kept_ending(record)
            if ending.exit not in command["ok_exit"]:
                return None
            for name, sha in record["files"].items():
                path = kept / "files" / name
                if sha256_head(path, path.stat().st_size) != sha:
                    return None
            for name in record["files"]:
                os.makedirs((folder.real / safe_relative(name)).parent, exist_ok=True)
                with (kept / "files" / name).open("rb") as held, folder.create(name) as file:
                    shutil.copyfileobj(held, file)
        except (
            OSError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            RecursionError,
            Refused,
        ):
            return None
        return ending

    def keep(self, command: Json, folder: Path, files: set[Path], ending: Ending) -> str:
        """Store the files that a command made; return why that failed, which is not an error."""
        kept = self.path(command)
        part = kept.with_name(f"{kept.name}.{os.getpid()}.part")
        record: Json = {"key": command["cache_key"], "utc": utc_now(), "files": {}}
        record.update(exit=ending.exit, seconds=ending.seconds, detail=ending.detail)
        try:
            for path in sorted(files):
                if path.is_file() and not path.is_symlink():
                    name = str(path.relative_to(folder))
                    target = part / "files" / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, target)
                    record["files"][name] = sha256_head(path, path.stat().st_size)
            write_file(part / "result.json", json.dumps(record).encode())
            shutil.rmtree(kept, ignore_errors=True)
            part.replace(kept)
        except OSError as e:
            shutil.rmtree(part, ignore_errors=True)
            return f"'{command['cache_key']}' could not be cached for later runs: {e}"
        return ""
