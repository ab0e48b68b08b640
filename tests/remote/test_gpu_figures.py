"""What the CUDA driver says of a GPU reaches the client beside nvidia-smi's fields of it."""

from __future__ import annotations

import subprocess

from tests.remote.local_host import LocalHost

UUID = "GPU-a5bd4633-6f01-a84b-e013-e43defd24dcb"
OTHER = "GPU-11111111-2222-3333-4444-555555555555"
SMI = f"""
case "$1" in
*,compute_cap,*)
  echo "NVIDIA H200, {OTHER}, 580.1, 9.0, 0, 345, 3201, 1980, 80, 700, 37, 0x1, Disabled, 0, 1, 0"
  echo "NVIDIA H200, {UUID}, 580.1, 9.0, 0, 345, 3201, 1980, 80, 700, 37, 0x1, Disabled, 0, 1, 0"
  ;;
--version) echo "NVIDIA-SMI version  : 580.1" ;;
esac
"""
# One device, which refuses to give its L2; it shows none where a variable hides it.
DRIVER = """
#include <cstdio>
#include <cstdlib>
#include <cstring>
extern "C" {
int cuInit(unsigned) { INIT }
int cuDeviceGetCount(int *n) { *n = std::getenv("CUDA_VISIBLE_DEVICES") == nullptr; return 0; }
int cuDeviceGet(int *device, int) { *device = 0; return 0; }
int cuDeviceGetUuid(void *uuid, int) {
  const unsigned char id[16] = {0xa5, 0xbd, 0x46, 0x33, 0x6f, 0x01, 0xa8, 0x4b,
                                0xe0, 0x13, 0xe4, 0x3d, 0xef, 0xd2, 0x4d, 0xcb};
  std::memcpy(uuid, id, sizeof id);
  return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int) {
  switch (attribute) {
  case 16: *value = 132; return 0;
  case 13: *value = 1980000; return 0;
  case 36: *value = 3201000; return 0;
  case 37: *value = 6016; return 0;
  }
  return 1;
}
}
"""


def use_driver(host: LocalHost, init: str = "return 0;") -> None:
    source = host.file("driver/cuda.cpp", DRIVER.replace("INIT", init))
    library = source.with_name("libcuda.so.1")
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, source], check=True)
    host.opener.before = f"export CUDA_VISIBLE_DEVICES=1 LD_LIBRARY_PATH={library.parent}; "


def test_the_drivers_figures_are_those_of_the_gpu_with_the_same_uuid(host: LocalHost) -> None:
    host.on_path("nvidia-smi", SMI)
    use_driver(host)
    other, own = host.link().facts.gpus
    assert (other["uuid"], "sm_count" in other) == (OTHER, False)
    assert other["no figures"] == "the CUDA driver does not know this GPU"
    assert own["uuid"] == UUID
    assert own["clocks.max.sm"] == "1980"
    assert {name: own[name] for name in own if name.endswith(("_count", "_khz", "_bits"))} == {
        "sm_count": "132",
        "max_sm_clock_khz": "1980000",
        "memory_clock_khz": "3201000",
        "memory_bus_width_bits": "6016",
    }
    assert "l2_bytes" not in own


def test_a_driver_that_crashes_takes_nothing_else_with_it(host: LocalHost) -> None:
    host.on_path("nvidia-smi", SMI)
    use_driver(host, "std::abort();")
    facts = host.link().facts
    assert [gpu["name"] for gpu in facts.gpus] == ["NVIDIA H200"] * 2
    assert {gpu["no figures"] for gpu in facts.gpus} == {
        "the CUDA driver was asked and did not answer (exit -6): no output"
    }
    assert facts.problems == ()


def test_a_host_without_a_driver_has_nvidia_smis_fields_alone(host: LocalHost) -> None:
    host.on_path("nvidia-smi", SMI)
    facts = host.link().facts
    assert [gpu.get("sm_count") for gpu in facts.gpus] == [None, None]
    assert facts.gpus[0]["no figures"] == "the CUDA driver does not know this GPU"
    assert facts.problems == ()


def test_the_driver_is_asked_once_a_boot_and_again_for_another_one(host: LocalHost) -> None:
    host.on_path("nvidia-smi", SMI.replace(OTHER, UUID, 1).replace("echo", ": echo", 1))
    told = host.file("asked", "")
    use_driver(
        host, f'if (FILE *f = fopen("{told}", "a")) {{ fputs("x", f); fclose(f); }} return 0;'
    )
    first = host.link().facts.gpus
    assert [gpu["sm_count"] for gpu in first] == ["132"]
    assert host.link().facts.gpus == first
    assert told.read_text() == "x"
    host.on_path("nvidia-smi", SMI.replace(OTHER, UUID, 1).replace("580.1", "595.1"))
    assert [gpu["sm_count"] for gpu in host.link().facts.gpus] == ["132", "132"]
    assert told.read_text() == "xx"


def test_a_kept_file_that_is_damaged_keeps_nothing(host: LocalHost) -> None:
    host.on_path("nvidia-smi", SMI)
    use_driver(host)
    assert host.link().facts.gpus
    (kept,) = host.folder.rglob("kept.json")
    for text in ("[]", "{", '{"a": 1}'):
        kept.write_text(text)
        assert host.link().facts.gpus[1]["sm_count"] == "132"
