"""Tasks about this machine, the hosts and this repository."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kernelrig.cli.command import command
from kernelrig.cli.flag_values import name_list, whole_number
from kernelrig.cli.project import new_root, project_root, tools_root
from kernelrig.cli.reply import Reply
from kernelrig.errors import ConfigError

if TYPE_CHECKING:
    from kernelrig.build.toolchain import Item


@command(
    help={
        "name": "the remote's name",
        "target": "USER@HOST[:PORT]",
        "fingerprint": "SHA256:... of its host key; default: pin the key that it shows now",
        "arch": "sm_100a (B200), sm_90a (H200) ...; default: as it was, or sm_100a",
        "gpu": "name that the driver must give the GPU, for example 'NVIDIA B200'",
        "identity_file": "private key to log in with; default: the agent and ssh_config",
        "replace": "overwrite an entry of the same name; default: keep what no flag names",
    },
)
def remote_add(
    name: str,
    target: str,
    fingerprint: str = "",
    arch: str = "",
    gpu: str = "",
    identity_file: str = "",
    replace: bool = False,
) -> Reply:
    """Pin a host's key in remotes.local.yaml; with a fingerprint, only the key that has it."""
    from kernelrig.run import upkeep

    text = upkeep.add_remote(
        project_root(),
        name,
        target,
        fingerprint,
        arch=arch,
        gpu=gpu,
        identity_file=identity_file,
        replace_entry=replace,
    )
    return Reply(text)


@command(
    iterable=["program"],
    help={"program": "a CUDA program, as prog.cu; default: write one that passes"},
)
def init(program: list[str]) -> Reply:
    """Make this folder a project: kernels.yaml, remotes.yaml, tasks.py, a workflow, .gitignore."""
    from kernelrig.config.new_project import init_project, program_needs

    if len(program) > 1:
        raise ConfigError("init takes one program", "add the others to kernel/kernels.yaml")
    path = Path(program[0]) if program else None
    written = init_project(new_root(), path)
    text = "\n".join(f"wrote {name}" for name in written) or "everything is there already"
    argued = "if the program needs arguments, write them as `args` into kernel/kernels.yaml, then "
    first = argued if program_needs(path).arguments else ""
    return Reply(f"{text}\nnext: {first}kernelrig remote-test")


@command(
    help={
        "name": "name of the kernel and of its source, kernel/NAME.cu",
        "template": "plain, elementwise or gemm: programs that check themselves; operation: a"
        " function of named tensors, with the harness's headers and a reference in NumPy",
    }
)
def new(name: str, template: str = "plain") -> Reply:
    """Add a kernel that passes to the project: its source, and its entry in kernels.yaml."""
    from kernelrig.config.new_kernel import add_kernel

    written = add_kernel(project_root(), name, template)
    headers = [path for path in written if path.endswith(".cuh")]
    lines = [f"wrote {path}" for path in written if path not in headers]
    if headers:
        lines.insert(-1, f"wrote {Path(headers[0]).parent}/, {len(headers)} headers")
    return Reply("\n".join([*lines, f"next: kernelrig remote-test --kernel {name}"]))


@command(
    help={
        "remote": "prune this host instead of this machine",
        "days": "keep what is younger; default: 14",
        "runs": "list which recorded runs may be removed, and why the others stay",
        "remove": "with --runs: remove them",
    }
)
def clean(remote: str = "", days: str = "14", runs: bool = False, remove: bool = False) -> Reply:
    """Prune old builds here, or old runs and unused blobs on a host; results only with --runs."""
    age = whole_number("days", days, "days")
    if runs:
        if remote:
            raise ConfigError("--runs is about the results here: it takes no --remote")
        from kernelrig.run import removal

        return Reply(removal.clean_runs(project_root(), age, remove=remove))
    if remove:
        raise ConfigError("--remove is of --runs; builds and what is on a host are made again")
    from kernelrig.run import upkeep

    return Reply(upkeep.clean(project_root(), remote, age))


@command(
    help={
        "remote": "the host whose ncu lists what it knows; default: show what is held here",
        "chip": "gb100 (B200) or gh100 (H200); default: both, and gb100 with --find",
        "find": "words that a metric's name holds, separated by commas",
        "line": "a command line of ncu, cuobjdump or nvdisasm: say what is wrong with its words",
    }
)
def ncu_catalogue(remote: str = "", chip: str = "", find: str = "", line: str = "") -> Reply:
    """List what ncu measures on a chip, which profile plans are checked against, or refresh it."""
    from kernelrig.run import catalogue_refresh

    root = project_root()
    if sum(map(bool, (remote, find, line))) > 1:
        raise ConfigError("--remote, --find and --line are each a question of their own: give one")
    if line:
        wrong = catalogue_refresh.wrong_words(root, line, chip)
        return Reply("\n".join(wrong) or "nothing is wrong with it", exit_code=2 if wrong else 0)
    if remote:
        return Reply(catalogue_refresh.refresh_catalogues(root, remote, chip))
    if find:
        return Reply(catalogue_refresh.find_metrics(root, name_list("find", find), chip))
    return Reply(catalogue_refresh.describe_catalogues(root, chip))


@command(
    help={
        "remote": "check this host in place of this machine, with preflight's probe and checks",
    }
)
def doctor(remote: str = "", system_cuda: bool = False) -> Reply:
    """Check this machine, or whether a host is worth its price; what is wrong and what to do."""
    if remote:
        from kernelrig.run.host_examination import examine

        found = examine(project_root(), remote)
        return Reply(found.text, exit_code=0 if found.fit else 4, tools=found.items)
    from kernelrig.build.toolchain import describe

    root = tools_root()  # outside of any project too: `run` needs none
    items = (*describe(root, system=system_cuda), _emulator())
    healthy = all(item.ok for item in items)
    return Reply("\n".join(map(str, items)), exit_code=0 if healthy else 4, tools=items)


def _emulator() -> Item:
    """Say which engine of the emulator this machine has."""
    from kernelrig.build.toolchain import Item
    from kernelrig.emu.launch.engines import describe_native
    from kernelrig.emu.native.core_build import NotBuilt

    try:
        return Item("emulator", True, describe_native())
    except NotBuilt as e:
        return Item("emulator", False, f"numpy engine alone: {e.message}", e.hint)


@command(help={"long": "also run the tests marked long"})
def test(long: bool = False) -> Reply:
    """Run what CI runs: tests, lint, types, import contracts, schemas, workflow audit."""
    from kernelrig.dev import lint

    root = project_root()
    if not (root / "ci/kernelrig").is_dir():
        raise ConfigError(f"{root} is not kernelrig's own repository, which this task checks")
    return Reply(exit_code=lint.run_all(root, long=long))
