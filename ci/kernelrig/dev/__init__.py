"""What concerns this repository itself: its tests, lint, types, contracts."""
