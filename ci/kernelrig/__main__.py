"""`python -m kernelrig TASK`: the same command as the console script; ci/invoke runs it."""

from kernelrig.cli.program import main

main()
