"""Observers of a run, each named as the stage on a GPU that it replaces."""
