"""Sanitizer stages: compute-sanitizer."""
