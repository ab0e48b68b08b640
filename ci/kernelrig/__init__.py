"""kernelrig: hand-written Blackwell kernels, developed from a machine that has no GPU."""

__version__ = "0.1.0"
