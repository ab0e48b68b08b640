"""Launch files: all parameters of one launch in plain fields, and how a launch is run."""
