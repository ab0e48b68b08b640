"""What every program built with our harness leaves, and what it means."""
