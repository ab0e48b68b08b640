"""Plain programs: their exit code and the lines that they print."""
