"""Help texts of the flags that several tasks have."""

KERNEL = "kernel of kernel/kernels.yaml; default: the only one"
REMOTE = "where to run: a name of remotes.yaml or remotes.local.yaml"
REQUIRE = "exit 4 unless the device is the GPU of exactly this name"
BUILD = "folder of a build under artifacts/builds; may be given several times"
SYSTEM_CUDA = "use the toolkit of CUDA_HOME or PATH in place of the pinned wheels"
SEED = "of the inputs, as a run's summary names it; default: drawn for each run on a device"
RUN = "run id, a unique part of it, or its folder"
