"""The families of instructions: a module each, with its rows of the table."""
