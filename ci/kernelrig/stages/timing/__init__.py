"""The timing stage."""
