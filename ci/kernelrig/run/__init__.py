"""A run, from request to report: the engine, its executors and the run directory."""
