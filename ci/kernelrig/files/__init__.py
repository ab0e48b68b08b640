"""Files: atomic writes, and records to JSON and back with their schemas."""
