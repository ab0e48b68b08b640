"""What is remembered from run to run: the history of their figures, and the experiments."""
