"""The CUDA runtime and driver of a program whose kernels are emulated: its host side runs here."""
