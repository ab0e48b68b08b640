"""Mistakes in kernels.yaml come back with file, line and what is allowed."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.config.selection import choose_kernel
from kernelrig.errors import ConfigError
from kernelrig.model import AcceptedFinding, Budget, Case, Invocation, Shape, Variant

from tests.config.projects import Project, mistakes

KERNEL = """\
schema: 1
kernels:
  gemm:
    kernel_regex: gemm_kernel
    sources: {sm_90a: gemm.cu}
    variants:
      production: {program: gemm, defines: {DEPTH: 4, SCALE: 1e-5, NAME: deep}, libs: [cuda]}
    cases: {smoke: {images: 1}, sanitizer: {images: 7, ctas: 4}}
    shape: {rows_per_image: 196, n: 768, k: 768}
    accum_tol: {sm_90a: 1e-5}
    budgets: {sm_90a: {production: {spill_bytes: 0}}}
    accepted:
      - {tool: racecheck, fingerprint: ab, tool_version: "2025.3", reason: r, expires: 2027-03-31}
"""


def kernel_mistakes(project: Project, old: str, new: str) -> list[str]:
    assert old in KERNEL
    project("kernel/gemm.cu", "")
    root = project("kernel/kernels.yaml", KERNEL.replace(old, new))
    return mistakes(lambda: config.load_kernels(root))


def test_a_kernel_is_read_whole(project: Project) -> None:
    project("kernel/gemm.cu", "")
    kernel = config.load_kernels(project("kernel/kernels.yaml", KERNEL))["gemm"]
    assert kernel.name == "gemm"
    assert kernel.level == 1
    assert kernel.variants["production"].name == "production"
    assert kernel.variants["production"].defines == {"DEPTH": 4, "SCALE": 0.00001, "NAME": "deep"}
    assert kernel.variants["production"].libs == ("cuda",)
    assert kernel.cases["sanitizer"] == Case("sanitizer", images=7, ctas=4)
    assert kernel.shape == Shape(196, 768, 768)
    assert kernel.accum_tol == {"sm_90a": 0.00001}
    assert kernel.budgets == {"sm_90a": {"production": Budget(spill_bytes=0)}}
    assert kernel.accepted == (
        AcceptedFinding("racecheck", "ab", "2025.3", "r", date(2027, 3, 31)),
    )


def test_a_plain_program_needs_sources_and_variants_alone(project: Project) -> None:
    project("kernel/p.cpp", "")
    text = (
        "schema: 1\nkernels:\n  p:\n    level: 0\n    cuda: false\n"
        "    sources: {sm_90a: p.cpp}\n    variants: {production: {program: p}}\n"
    )
    kernel = config.load_kernels(project("kernel/kernels.yaml", text))["p"]
    assert (kernel.level, kernel.cuda, kernel.cases) == (0, False, {})


def test_two_lines_are_a_plain_program(project: Project) -> None:
    project("kernel/p.cu", "")
    text = "schema: 2\nkernels:\n  p:\n    sources: p.cu\n"
    kernel = config.load_kernels(project("kernel/kernels.yaml", text))["p"]
    assert (kernel.level, kernel.sources) == (0, {"sm_100a": "p.cu", "sm_90a": "p.cu"})
    assert [(v.name, v.program) for v in kernel.variants.values()] == [("production", "p")]
    old = project("kernel/kernels.yaml", text.replace("schema: 2", "schema: 1"))
    assert len(mistakes(lambda: config.load_kernels(old))) == 2  # sources, variants
    wrong = project("kernel/kernels.yaml", text.replace("p.cu", "q.cu"))
    (said,) = mistakes(lambda: config.load_kernels(wrong))
    assert said.startswith("kernel/kernels.yaml:4: no file 'q.cu' in kernel/")


@pytest.mark.parametrize("key", ["kernel_regex: k", "cases: {smoke: {images: 1}}", "level: 1"])
def test_an_entry_with_a_key_of_the_harness_is_no_plain_program(project: Project, key: str) -> None:
    project("kernel/p.cu", "")
    text = f"schema: 2\nkernels:\n  p:\n    {key}\n    sources: p.cu\n"
    root = project("kernel/kernels.yaml", text)
    assert "missing key 'shape' in 'p'" in "\n".join(mistakes(lambda: config.load_kernels(root)))


PLAIN = """\
schema: 3
default: p
kernels:
  p:
    sources: p.cu
    args: ["1"]
    libs: [curand]
    env: {MODE: fast}
    files: [in.npy]
    must_print: "^ok"
    metrics:
      time_ms: 'avg ([0-9.]+) ms'
      hits: {regex: '(\\d+) hits', better: higher, unit: hits}
    cases:
      smoke: {args: []}
      full: {env: {SIZE: "9"}, files: [more.bin]}
  q: {sources: p.cu}
"""


def test_a_plain_program_says_how_it_is_started_and_what_it_prints(project: Project) -> None:
    for name in ("p.cu", "in.npy", "more.bin"):
        project(f"kernel/{name}", "")
    kernels = config.load_kernels(project("kernel/kernels.yaml", PLAIN))
    p = kernels["p"]
    assert (p.level, p.default, kernels["q"].default) == (0, True, False)
    assert p.variants == {"production": Variant("production", "p", libs=("curand",))}
    assert choose_kernel(kernels, "") is p
    assert p.invocation("smoke") == Invocation((), {"MODE": "fast"}, ("in.npy",))
    full = Invocation(("1",), {"MODE": "fast", "SIZE": "9"}, ("in.npy", "more.bin"))
    assert p.invocation("") == p.invocation("full") == full
    assert p.invocation("sanitizer") == Invocation(("1",), {"MODE": "fast"}, ("in.npy",))
    assert [(m.name, m.unit, m.better) for m in p.metrics.values()] == [
        ("time_ms", "ms", "lower"),
        ("hits", "hits", "higher"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "mistake"),
    [
        ("default: p", "default: pp", "2: 'default' names 'pp'; kernels: p, q; did you mean 'p'?"),
        ("^ok", "(", "10: 'must_print' is not a regular expression: missing ), unterminated"
         " subpattern at position 0"),
        ("avg ([0-9.]+) ms", "avg ms", "12: 'regex' has 0 groups; the number is its one group:"
         " (...)"),
        (", better: higher", "", "13: metric 'hits' needs 'better: lower' or 'better: higher', or a"
         " name that ends in a unit: _ns, _us, _ms, _s, _gbs, _gflops, _tflops"),
        ("in.npy", "gone.npy", "9: no file 'gone.npy' in kernel/"),
        ("{SIZE:", "{2D:", "16: '2D' cannot be a name in 'env'; use letters, digits and '_'"),
        ("  q: {", "  q: {default: true, ", "17: unknown key 'default'; write `default: q` beside"
         " 'kernels'"),
        ("smoke: {args: []}", "smoke: {args: 1}", "15: 'args' must be a list, not 1"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_plain_program_is_named(
    project: Project, old: str, new: str, mistake: str
) -> None:
    for name in ("p.cu", "in.npy", "more.bin"):
        project(f"kernel/{name}", "")
    root = project("kernel/kernels.yaml", PLAIN.replace(old, new))
    assert f"kernel/kernels.yaml:{mistake}" in mistakes(lambda: config.load_kernels(root))


def test_what_is_new_of_plain_programs_needs_a_file_of_schema_3(project: Project) -> None:
    project("kernel/p.cu", "")
    root = project("kernel/kernels.yaml", PLAIN.replace("schema: 3", "schema: 2"))
    said = "\n".join(mistakes(lambda: config.load_kernels(root)))
    for key in ("env", "files", "must_print", "metrics", "cases"):
        assert f"'{key}' of a plain program needs a file of schema 3" in said
    assert "'default' needs a file of schema 3" in said


def test_a_whole_entry_means_the_same_in_both_schemas(project: Project) -> None:
    project("kernel/gemm.cu", "")
    one = config.load_kernels(project("kernel/kernels.yaml", KERNEL))
    two = project("kernel/kernels.yaml", KERNEL.replace("schema: 1", "schema: 2"))
    assert config.load_kernels(two) == one


@pytest.mark.parametrize(
    ("label", "of_90a", "of_100a"),
    [
        ("label: stand-in", "stand-in", "stand-in"),
        ("label: {sm_90a: stand-in}", "stand-in", ""),
        ("kernel_regex: ''", "", ""),
    ],
)
def test_a_label_is_for_every_arch_or_for_one(
    project: Project, label: str, of_90a: str, of_100a: str
) -> None:
    project("kernel/p.cpp", "")
    text = (
        f"schema: 1\nkernels:\n  p:\n    level: 0\n    {label}\n"
        "    sources: {sm_90a: p.cpp, sm_100a: p.cpp}\n    variants: {production: {program: p}}\n"
    )
    kernel = config.load_kernels(project("kernel/kernels.yaml", text))["p"]
    assert (kernel.label_for("sm_90a"), kernel.label_for("sm_100a")) == (of_90a, of_100a)


def test_variants_of_a_plain_program_may_share_its_name(project: Project) -> None:
    project("kernel/p.cpp", "")
    text = (
        "schema: 1\nkernels:\n  p:\n    level: 0\n"
        "    sources: {sm_90a: p.cpp, sm_100a: p.cpp}\n"
        "    variants: {production: {program: p}, guard: {program: p, archs: [sm_100a]}}\n"
    )
    kernel = config.load_kernels(project("kernel/kernels.yaml", text))["p"]
    assert kernel.archs_of("production") == ("sm_90a", "sm_100a")
    assert kernel.archs_of("guard") == ("sm_100a",)
    assert kernel.archs_of("gaurd") == ()
    assert kernel.lacks("guard", "sm_100a") == ""
    assert kernel.lacks("guard", "sm_90a") == "p has no variant guard for sm_90a; it is for sm_100a"


@pytest.mark.parametrize(
    ("old", "new", "mistake"),
    [
        (
            "    shape: {rows_per_image: 196, n: 768, k: 768}\n",
            "",
            "3: missing key 'shape' in 'gemm'; a harness program (level 1) needs it;"
            " a plain program, with a main of its own, needs 'sources' alone: leave out"
            " kernel_regex, shape, accum_tol and cases of images, or say 'level: 0'",
        ),
        (
            "smoke: {images: 1}, sanitizer: {images: 7, ctas: 4}",
            "",
            "3: missing key 'cases' in 'gemm'; a harness program (level 1) needs it;"
            " a plain program, with a main of its own, needs 'sources' alone: leave out"
            " kernel_regex, shape, accum_tol and cases of images, or say 'level: 0'",
        ),
        (
            "kernel_regex: gemm_kernel",
            "label: x",
            "3: missing key 'kernel_regex' in 'gemm'; a harness program (level 1) needs it;"
            " a plain program, with a main of its own, needs 'sources' alone: leave out"
            " kernel_regex, shape, accum_tol and cases of images, or say 'level: 0'",
        ),
        (
            "gemm_kernel",
            '"gemm("',
            "4: 'kernel_regex' is not a regular expression: "
            "missing ), unterminated subpattern at position 4",
        ),
        ("gemm.cu", "gem.cu", "5: no file 'gem.cu' in kernel/; did you mean 'gemm.cu'?"),
        (
            "sources: {sm_90a: gemm.cu}",
            "sources: {}",
            "5: 'sources' of 'gemm' is empty; it needs one at least",
        ),
        (
            "accum_tol: {sm_90a: 1e-5}",
            "accum_tol: {sm_80: 1e-5}",
            "10: 'accum_tol' names 'sm_80', which has no source; sources: sm_90a",
        ),
        (
            "accum_tol: {sm_90a: 1e-5}",
            "accum_tol: {sm_90a: .nan}",
            "10: 'sm_90a' must be a finite number, not NaN",
        ),
        (
            "accum_tol: {sm_90a: 1e-5}",
            'accum_tol: {sm_90a: "1e-5"}',
            "10: 'sm_90a' must be a number, not '1e-5'; take it out of its quotes",
        ),
        (
            "kernel_regex: gemm_kernel",
            "kernel_regex: gemm_kernel\n    label: {sm_80: stand-in}",
            "5: 'label' names 'sm_80', which has no source; sources: sm_90a",
        ),
        (
            "kernel_regex: gemm_kernel",
            "kernel_regex: gemm_kernel\n    label: 5",
            "5: 'label' must be text or a mapping, not 5",
        ),
        (
            "program: gemm,",
            "program: gemm, archs: [sm_90a, sm_100a],",
            "7: 'archs' names 'sm_100a', which has no source; sources: sm_90a",
        ),
        (
            "    cases:",
            "      guard: {program: gemm}\n    cases:",
            "8: 'gemm' is the program of variant 'production' already:"
            " a result file must say which one wrote it",
        ),
        (
            "spill_bytes: 0",
            "spils: 0",
            "11: unknown key 'spils'; known keys: barriers, ctas_per_sm, local_instructions, "
            "registers, shared_bytes, spill_bytes, stack_bytes; did you mean 'spill_bytes'?",
        ),
        (
            "DEPTH: 4",
            "DEPTH: true",
            "7: 'DEPTH' must be text or a whole number or a number, not true",
        ),
        ("DEPTH: 4", "2D: 4", "7: '2D' cannot be a name in 'defines'; use letters, digits and '_'"),
        ("program: gemm,", "", "7: missing key 'program' in 'production'"),
        (
            "program: gemm,",
            "program: a/b,",
            "7: 'a/b' cannot be a name; use letters, digits, '.', '_' and '-': it names folders",
        ),
        ("images: 1}", "images: 0}", "8: 'images' must be more than 0, not 0"),
        ("ctas: 4", "ctas: -1", "8: 'ctas' must be from 0 (every SM) to 1000000000, not -1"),
        ("n: 768", "n: 7e2", "9: 'n' must be a whole number, not 700.0"),
        (
            "2027-03-31",
            "2027-02-30",
            "13: 'expires' must be a date such as 2027-03-31, not '2027-02-30'",
        ),
        ("fingerprint: ab", 'fingerprint: ""', "13: 'fingerprint' of an accepted finding is empty"),
        ('"2025.3"', '" "', "13: 'tool_version' of an accepted finding is empty"),
        ("reason: r", 'reason: ""', "13: 'reason' of an accepted finding is empty"),
        (
            "kernel_regex: gemm_kernel",
            'kernel_regex: gemm_kernel\n    expected_lines: [done, " "]',
            "5: an expected line is one line with something in it, not ' '",
        ),
        (
            "kernel_regex: gemm_kernel",
            'kernel_regex: gemm_kernel\n    expected_lines: ["a\\nb"]',
            "5: an expected line is one line with something in it, not 'a\\nb'",
        ),
        ('"2025.3"', "2025.3", "13: 'tool_version' must be text, not 2025.3; put it in quotes"),
        (
            "kernel_regex: gemm_kernel",
            "kernel_regex: gemm_kernel\n    libs: [cuda]",
            "5: 'libs' stands in each variant where there are variants",
        ),
        ("kernels:", "kernels: {}\nx:", "3: unknown key 'x'; known keys: default, kernels, schema"),
    ],
)
def test_a_mistake_in_a_kernel_is_named(project: Project, old: str, new: str, mistake: str) -> None:
    assert kernel_mistakes(project, old, new) == [f"kernel/kernels.yaml:{mistake}"]


def test_a_name_that_is_too_long_for_a_file_is_no_file(project: Project) -> None:
    (said,) = kernel_mistakes(project, "sm_90a: gemm.cu", f"sm_90a: {'x' * 300}.cu")
    assert said.startswith("kernel/kernels.yaml:5: no file 'xxx")
    (said,) = kernel_mistakes(project, "sm_90a: gemm.cu", f"sm_90a: {'x' * 5000}.cu")
    assert (len(said), said[-5:]) == (604, "x ...")


def test_of_many_mistakes_the_first_are_shown(project: Project) -> None:
    names = ", ".join(f"{{a{n}: 1}}" for n in range(40))
    said = kernel_mistakes(
        project, "kernel_regex: gemm_kernel", f"kernel_regex: gemm_kernel\n    args: [{names}]"
    )
    assert len(said) == 21
    assert said[-1] == "kernel/kernels.yaml: 20 more mistakes"


def test_a_project_without_kernels_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load_kernels(tmp_path)
    assert str(caught.value) == (
        f"no file kernel/kernels.yaml in {tmp_path}; "
        "create it, or pass the project's folder with --root"
    )


def test_a_program_that_would_replace_a_file_of_its_build_is_refused(project: Project) -> None:
    assert kernel_mistakes(project, "program: gemm", "program: headers.d") == [
        "kernel/kernels.yaml:7: 'headers.d' is another file of each build;"
        " name the program otherwise"
    ]


def test_a_source_outside_of_the_project_is_refused(project: Project) -> None:
    assert kernel_mistakes(project, "sm_90a: gemm.cu", "sm_90a: /etc/hostname") == [
        "kernel/kernels.yaml:5: '/etc/hostname' is no file of this project:"
        " no commit says what was compiled"
    ]


def test_a_wrong_schema_is_the_only_complaint(project: Project) -> None:
    """A short entry of schema 3 is full of mistakes by the rules of any other one."""
    short = "schema: 9\nkernels:\n  gemm:\n    sources: gemm.cu\n"
    root = project("kernel/kernels.yaml", short)
    assert mistakes(lambda: config.load_kernels(root)) == [
        "kernel/kernels.yaml:1: 'schema' must be one of 1, 2, 3, 4, not 9"
    ]
    root = project("kernel/kernels.yaml", short.partition("\n")[2])
    assert mistakes(lambda: config.load_kernels(root)) == [
        "kernel/kernels.yaml:1: missing key 'schema' in the file"
    ]
