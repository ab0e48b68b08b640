"""The PTX emulator: a GPU made of NumPy, for finding faults, not for time."""
