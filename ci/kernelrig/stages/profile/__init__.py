"""The profile stage: Nsight Compute."""
