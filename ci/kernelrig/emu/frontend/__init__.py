"""From PTX to what the machine runs: basic blocks, layout of variables, generated Python."""
