"""The native engine: the machine in C++, behind the NumPy engine's interfaces."""
