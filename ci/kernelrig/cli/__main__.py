"""`python -m kernelrig.cli`, which ci/invoke runs in its own environment."""

from kernelrig.cli.program import main

main()
