"""A run from request to report: the only place that knows the order."""
