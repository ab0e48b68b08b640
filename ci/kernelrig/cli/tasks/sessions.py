"""The task that carries out a session."""

from __future__ import annotations

from pathlib import Path

from kernelrig.cli.command import command
from kernelrig.cli.flag_values import name_list
from kernelrig.cli.project import project_root
from kernelrig.cli.reply import Reply


@command(
    help={
        "file": "the session's file: entries by name, with the flags of their tasks as keys",
        "remote": "where; NAME,NAME spreads entries over hosts; default: the entries' own",
        "again": "entries to be carried out once more, separated by commas",
        "dry_run": "print entries, minutes and price; compile nothing, rent and connect to no host",
    }
)
def session(
    file: str,
    remote: str = "",
    again: str = "",
    system_cuda: bool = False,
    dry_run: bool = False,
) -> Reply:
    """Carry out the entries of a file back to back on hosts; called again, it goes on."""
    from kernelrig.session import SessionRequest, describe_session, render_session, run_session

    request = SessionRequest(
        file=Path(file),
        remotes=name_list("remote", remote),
        again=name_list("again", again),
        system_cuda=system_cuda,
    )
    if dry_run:
        return Reply(describe_session(project_root(), request))
    result = run_session(project_root(), request)
    return Reply(render_session(result), result.exit_code, session=result)
