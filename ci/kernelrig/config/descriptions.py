"""What each key of our YAML files means: an editor shows it from the JSON Schemas.

By the record of kernelrig.model or kernelrig.config.schema, then by key. A test requires a text for
every key.
"""

from __future__ import annotations

from collections.abc import Mapping

_SCHEMA = "Version of the file's format."
_ARCH_MAP = "By arch, as sm_90a or sm_100a"

DESCRIPTIONS: Mapping[str, Mapping[str, str]] = {
    "RemotesFile": {
        "schema": _SCHEMA,
        "remotes": "The hosts, by the name that --remote takes.",
    },
    "KernelsFile": {
        "schema": _SCHEMA,
        "kernels": "The kernels, by the name that --kernel takes.",
        "default": "The kernel that is meant where --kernel is not given (schema 3).",
    },
    "PlanFile": {
        "schema": _SCHEMA,
        "stages": "The stages in the order in which they run.",
    },
    "SessionFile": {
        "schema": _SCHEMA,
        "entries": "What is carried out, by name; in this order as far as hosts are free.",
        "max_minutes": "Minutes for which the entries may hold hosts, all hosts together. No entry "
        "is started beyond them, and no stage of one.",
        "max_cost": "What the entries may cost, by `price_per_hour` of the remotes.",
        "rent": "true: a remote with `up` is rented when an entry comes to it, and given back when "
        "none is left for it.",
        "down_after": "Minutes unused after which a rented host runs its `on_idle`, as "
        "`up --down-after` says.",
    },
    "SessionEntry": {
        "task": "build, remote-test, sweep, bench or profile: the keys are those of its flags.",
        "needs": "Entries above that must have passed; otherwise this one is skipped.",
        "remote": "The only remote for it; default: any of those that --remote names.",
        "emulate": "false: its kernels are not emulated here before a host is used.",
        "kernel": "Kernel of kernel/kernels.yaml; default: as without --kernel.",
        "arch": "Arch of a build; default: every arch of the kernel.",
        "variant": "Variant of the kernel; default: production.",
        "plan": "Plan of a remote-test; default: default.",
        "only": "Stages of the plan, or of a sweep one regular expression for the names of sets.",
        "plans": "Profile plans; default: all that are for the chip.",
        "require_device": "Exact name of the GPU: nothing is launched on another.",
        "gate": "Exit 1 if it is slower by more than this percentage.",
        "stop_at_first": "End the run at the first stage that does not pass.",
        "fresh": "Run every stage, also one that passed before.",
        "builds": "What a bench compares: KERNEL[:VARIANT][@REV], @REV, NAME=DIR or DIR.",
        "rounds": "Rounds of a bench.",
        "minutes": "Minutes of a bench, in place of its rounds.",
        "case": "Case that a bench or a sweep times; default: full.",
        "set": "K=V,V: values that a sweep tries of a tunable; then only these vary.",
        "fix": "K=V: a tunable that a sweep holds.",
        "sample": "Sets that a sweep tries, always the same ones.",
        "budget": "Minutes on the host that a sweep has in one call.",
    },
    "Remote": {
        "arch": "Arch that is built for this host: sm_90a (H200), sm_100a (B200) ... Preflight "
        "compares the GPU with it.",
        "kind": "ssh: a host with sshd. embedded: this machine, through kernelrig's own SSH host. "
        "slurm: the login node of a cluster; runs are its jobs.",
        "host": "Address, or a Host of your ssh_config; without user and port, which are keys.",
        "user": "User to log in as; default: that of ssh_config, or yours.",
        "port": "Port of sshd, 1 to 65535; default: that of ssh_config, or 22.",
        "identity_file": "Private key to log in with; default: the agent and ssh_config.",
        "host_key": "The host's public key itself, `ssh-ed25519 AAAA...`. `remote-add` writes it; "
        "a host that shows another key is refused.",
        "jump": "Host to connect through, as ProxyJump takes it.",
        "workdir": "Folder on the host for uploads and runs.",
        "device": "gpu: run on the host's GPU. emulator: emulate the PTX (embedded remotes only).",
        "gpu": "Part of the name that the driver gives the GPU; a run on any other is refused.",
        "gpus": "Which GPUs a run leases and its programs see: a number in PCI order, the start "
        "of a UUID, any (one that is free) or all; default: what CUDA_VISIBLE_DEVICES in `env` "
        "names, or the first.",
        "shared_power": "true: times may be measured while other GPUs of the host are in use, as "
        "the run records; default: a run that measures times leases all of them.",
        "tools": "host: use the host's compute-sanitizer. ship: upload the pinned one.",
        "python": "Python 3.9 or newer on the host, which runs the agent.",
        "connect_timeout_s": "Seconds until a host that does not answer is an error.",
        "boot_s": "Seconds for which a host that does not answer yet is tried again, as it may "
        "boot; 0 = tried once.",
        "silence_s": "Seconds without a byte from the host until the connection is made anew; "
        "more than 2, its agent's sign of life.",
        "give_up_s": "Seconds without progress after which the client gives up connecting anew.",
        "answer_s": "Seconds that the agent may work on one reply, such as hashing what is there, "
        "and be silent beside the time limit of a command.",
        "env": "Environment variables of every command on the host.",
        "price_per_hour": "What an hour of the host costs, in any currency: plans and summaries "
        "then say what a run costs.",
        "max_minutes": "Minutes for which a run may hold the host. One that cannot fit is refused; "
        "one that reaches them ends after the stage that runs then.",
        "max_cost": "What a run may cost, by `price_per_hour`; a limit as `max_minutes` is.",
        "up": "Command that rents the host, as a list of words without a shell; remotes.local.yaml "
        "only. `{request}` is replaced by the request's id, which is to become a tag there.",
        "status": "Command that says what the provider has under `{request}`, or `{id}`: JSON or "
        "key=value with state, id, address, port, user, fingerprint.",
        "down": "Command that gives back what the provider has as `{id}`, or under `{request}`.",
        "on_idle": "Command that the host itself runs after `up --down-after MINUTES` without a "
        "run, such as [shutdown, -h, now]; it needs no credential of the provider.",
        "tags": "false: the provider cannot be asked by `{request}`, so `up` asks you.",
        "slurm": "What each job of a remote of `kind: slurm` asks for.",
    },
    "SlurmOptions": {
        "partition": "Partition; default: the cluster's.",
        "account": "Account that the job is charged to.",
        "qos": "Quality of service.",
        "reservation": "Reservation that the job runs in.",
        "gres": "Generic resources, as `gpu:1` or `gpu:b200:1`.",
        "constraint": "Features that the node must have.",
        "nodelist": "Nodes to run on.",
        "exclude": "Nodes not to run on.",
        "cpus": "CPUs of a job.",
        "memory_mb": "Memory of a job in MB; default: the cluster's.",
        "time_minutes": "Minutes after which Slurm ends a job.",
        "poll_s": "Seconds between two questions to the controller, by `squeue`.",
        "requeue": "Whether a job that was preempted, or whose node failed, goes on later.",
    },
    "Kernel": {
        "sources": f"{_ARCH_MAP}: the source file, relative to kernel/. In schema 2 also one file, "
        "which is compiled for sm_100a and sm_90a.",
        "variants": "The ways to compile it, by name; `production` is the default of every task. "
        "Schema 2 has it without being told.",
        "level": "1: a program with the harness's command line and result files. 0: any program, "
        "judged by its exit code and `expected_lines`. Default: 1; in schema 2 0, of an entry "
        "without kernel_regex, cases, shape and accum_tol.",
        "kernel_regex": "Regular expression of the kernel function's name: resources, sanitizers "
        "and profiles are of the functions that it matches.",
        "label": "What reports must say of its times, for example that it is a stand-in; one text, "
        "or one per arch.",
        "baseline": "It is something to compare with (cuBLASLt ...), not a kernel of ours: "
        "`build --all` leaves it out.",
        "cases": "Problem sizes, by the name that plans and --case use.",
        "accum_tol": f"{_ARCH_MAP}: relative tolerance of the hardware's accumulation.",
        "shape": "The matrix product behind a case of patch_embed.",
        "inputs": "The tensors that an operation reads, by name (schema 3).",
        "outputs": "The tensors that an operation writes, by name; with it the kernel is an "
        "operation, and its cases are any named whole numbers.",
        "reference": "Python file, relative to kernel/, with `def reference(case, inputs)`: what "
        "the outputs must be, in NumPy.",
        "bytes_moved": "Bytes that memory must move in a launch at the least, an expression over "
        "the case's numbers; default: each tensor once.",
        "flop": "Operations of a launch by the type of their operands (e4m3, e5m2, i8, bf16, f16, "
        "tf32, f32), expressions over the case's numbers.",
        "budgets": f"{_ARCH_MAP}, then by variant: the most resources a build may use.",
        "tunables": f"{_ARCH_MAP}, then by name: constants that -D sets, and flags.",
        "sass": f"{_ARCH_MAP}: what is expected of the SASS.",
        "accepted": "Reviewed findings that are not faults of the kernel.",
        "args": "Arguments of a plain program.",
        "expected_lines": "Lines that a plain program must print.",
        "cuda": "false: a CPU program, compiled by g++ alone.",
        "extras": "Locks (ci/locks/NAME.txt) whose wheels have headers that the sources include.",
        "env": "Environment variables of a plain program.",
        "files": "Input files of a plain program, relative to kernel/. They are shipped; an "
        "argument that names one is given its place.",
        "program_cases": "Ways to start a plain program, by name: args, env and files.",
        "must_print": "Regular expression that a plain program's output must match somewhere.",
        "must_not_print": "Regular expression that nothing in its output may match.",
        "metrics": "Numbers that a plain program prints, by name: a regular expression with one "
        "group, as time_ms: 'avg ([0-9.]+) ms'. Where none is a time, kernels are measured.",
        "default": "Whether it is the default kernel.",
    },
    "Variant": {
        "program": "File name of the binary; a result file names the program that wrote it.",
        "defines": "-D names with their values.",
        "nvcc_flags": "More flags of nvcc, or of g++ for a CPU program.",
        "libs": "Libraries for the linker: a name, as cuda, curand, cublas or m, a flag, or a file "
        "relative to the repository. What the toolkit's wheels lack of them is fetched.",
        "archs": "The archs that it exists for; default: every arch of the kernel.",
        "function": "What its outputs are compared with.",
    },
    "Case": {
        "images": "Images: each has `rows_per_image` rows of the product.",
        "ctas": "At most so many CTAs in the grid; 0 = one per SM.",
    },
    "ProgramCase": {
        "args": "Arguments; default: those of the kernel.",
        "env": "Environment variables, added to those of the kernel.",
        "files": "Input files, added to those of the kernel.",
    },
    "PrintedMetric": {
        "regex": "Regular expression; its one group is the number.",
        "unit": "Unit of the number; names that end in _ns, _us, _ms, _s, _gbs, _tflops or _gflops "
        "say it themselves.",
        "better": "lower or higher: which way is good. Times and rates say it by their unit.",
    },
    "Input": {
        "dtype": "Type of its elements.",
        "shape": "Extents, slowest first: numbers, or expressions over the case's numbers.",
        "values": "Random data: uniform; uneven, of magnitudes that differ by up to 2^15; ramp, "
        "which rises every 251 elements; zeros.",
        "range": "Least and largest value, [-2, 2] by default.",
    },
    "Output": {
        "dtype": "Type of its elements.",
        "shape": "Extents, slowest first: numbers, or expressions over the case's numbers.",
        "max_abs": "Largest error; with no tolerance the reference rounded to `dtype` is wanted.",
        "max_rel": "Largest error relative to the reference; added to `max_abs`.",
        "initial": "What it holds before each launch, of a kernel that adds to it or updates it in "
        "place: zeros, or the name of an input of the same type and shape. By default a canary, by "
        "which an element that was not written shows.",
    },
    "Shape": {
        "rows_per_image": "Rows of A per image: M = images x rows_per_image.",
        "n": "Columns of B.",
        "k": "Columns of A, the summed dimension.",
    },
    "Budget": {
        "registers": "Registers per thread.",
        "spill_bytes": "Bytes of spill stores and loads per thread.",
        "stack_bytes": "Bytes of stack frame per thread.",
        "local_instructions": "Instructions that access local memory.",
        "shared_bytes": "Bytes of shared memory per CTA, static and dynamic.",
        "barriers": "Named barriers per CTA.",
        "ctas_per_sm": "The fewest CTAs that must fit on an SM at once.",
    },
    "Tunable": {
        "default": "Value of a build whose variant does not define it.",
        "values": "Values that `check --tunables` and a sweep try.",
        "structural": "true: tried in every combination with the other structural ones; "
        "false: in pairs.",
        "flag": "A word for the compiler in place of -D; the value stands where it has {}, as in "
        "--maxrregcount={} (schema 4).",
        "without": "The value at which the flag is left out (schema 4).",
    },
    "SassRules": {
        "source": "The source that the rules are for; a build of another is not judged by them.",
        "roles": "Warp roles by name.",
        "latencies": "Asynchronous loads whose distance to their wait is reported, never judged.",
        "rules": "What the disassembly must or must not have.",
    },
    "Role": {
        "issues": "Opcodes that only this role's warps issue.",
        "places": "How many copies of its code there are, as an expression over the tunables.",
    },
    "Latency": {
        "load": "Opcode of the asynchronous load.",
        "cycles": "Its latency in cycles.",
        "warps": "Warps that hide it, as an expression over the tunables.",
    },
    "SassRule": {
        "code": "Number of the rule, S001 ...",
        "name": "Its name in kebab-case.",
        "what": "What must hold.",
        "why": "What happens otherwise.",
        "fix": "The suggested fix.",
        "function": "Regular expression of the functions it is for; default: the kernel's.",
        "role": "The warp role whose code it is for; default: the whole function.",
        "variants": "The variants it is for; default: all.",
        "within": "function: all of the code. loops: the code in loops alone.",
        "must_have": "Opcode patterns, each of which must occur. LDTM matches LDTM.x32.",
        "must_not_have": "Opcode patterns, none of which may occur.",
        "count": "Opcode pattern -> how often it occurs, an expression over the tunables.",
        "order": "Opcode patterns that every path to the last of them must have passed in order.",
        "since": "Opcode pattern from whose latest occurrence `order` counts; default: the entry.",
    },
    "AcceptedFinding": {
        "tool": "The tool that reports it.",
        "fingerprint": "The finding's fingerprint, as reports print it.",
        "tool_version": "Version of the tool that was reviewed; another one's finding is a fault.",
        "reason": "Why it is not a fault of the kernel.",
        "expires": "Date, as 2027-03-31, from which it is a fault again.",
    },
    "Stage": {
        "name": "Name of the stage, which --only and `needs` use.",
        "kind": "What the stage does.",
        "case": "Case of kernels.yaml; default: full.",
        "patterns": "How the inputs are filled, each in a command of its own.",
        "seeds": "Numbers of the inputs' seeds, each in a command of its own: a run on a device"
        " draws what they stand for (`--seed`), an emulated one uses the numbers.",
        "tool": "The compute-sanitizer tool of a sanitizer stage.",
        "needs": "Earlier stages that must have passed; otherwise this one is skipped.",
        "time_s": "Time limit of each command in seconds.",
        "output_mb": "Limit of what each command may print, in MB.",
        "disk_mb": "Limit of what each command may write, in MB.",
        "warmup_s": "Seconds of load before the samples of a timing stage.",
        "samples": "Launches that a timing stage times.",
        "variant": "Variant that it runs in place of the run's own.",
        "whole": "Emulate the case at its own size, however large; default: a smaller case.",
    },
    "ProfilePlan": {
        "schema": _SCHEMA,
        "question": "The question that the profile answers.",
        "hypothesis": "What is expected, and why.",
        "metrics": "Metrics of ncu, each with its suffix, as smsp__inst_executed.sum.",
        "on_chip": "Further metrics of one chip: gb100 (B200), gh100 (H200).",
        "sections": "Sections of ncu, as SourceCounters.",
        "values": "Numbers that rules use: name -> expression over metrics and values above it.",
        "rules": "What the numbers mean, and what to do then.",
        "chips": "Chips that the plan is for; default: all.",
        "kernel": "Regular expression of the function to profile; default: the kernel's own.",
        "launch_skip": "Launches of it that are passed over first; default: 2, which warm up, or 0"
        " of a plain program, which may launch it once.",
        "launch_count": "Launches of it that are profiled.",
        "replay": "kernel: a launch is replayed for each pass. application: the whole program is.",
        "clocks": "none: as the GPU runs. base: ncu locks the clocks there.",
        "caches": "all: flushed before each pass. none: as the launch before left them.",
        "options": "Further options of ncu without their `--`, as pm-sampling-interval.",
    },
    "ProfileRule": {
        "name": "Name of the rule, in kebab-case.",
        "when": "Expression over metrics and values that is true or false.",
        "means": "What it means when it is true.",
        "do": "What to do then.",
        "chips": "Chips that the rule is for; default: those of the plan.",
    },
}
