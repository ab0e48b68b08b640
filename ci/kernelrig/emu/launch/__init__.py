"""Launch files: everything about one launch that a driver would be told, in plain fields."""
