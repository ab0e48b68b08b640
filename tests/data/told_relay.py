#!/usr/bin/env python3
"""A stand-in for a harness program: obeys --relay as relay.cuh does, writes what it is given.

Beside it lies `NAME.given.json` for each process; `bad` in the name of one makes it end with 70.
"""

import json
import os
import sys
import time
from pathlib import Path

words = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
result = Path(words["--result"])
given = json.loads(Path(f"given-{result.name}").read_text())
if "--relay" in words:
    turns = [int(t) for t in words["--turns"].split(",")]
    file = os.open(words["--relay"], os.O_RDWR)
    size = os.fstat(file).st_size

    def wait_for(turn: int) -> None:
        while True:
            state = os.pread(file, size + 1, 0)
            if len(state) != size:
                sys.exit(70)
            if 0 not in state and all(b == 2 for b in state[:turn]):
                return
            time.sleep(0.001)

    for turn in turns:
        os.pwrite(file, b"\1", turn)
    for turn in turns:
        wait_for(turn)
        if given["exit_code"]:
            sys.exit(given["exit_code"])
        with Path("order").open("a") as order:
            order.write(f"{turn} {result.stem} {os.environ.get('KERNELRIG_CHOICE_FILE', '')}\n")
        os.pwrite(file, b"\2", turn)
    wait_for(size)
overwrites = given.pop("overwrites", {})
result.write_text(json.dumps(given))
for name, content in overwrites.items():
    while f"  {name}\n" not in Path("relay.stdout.log").read_text():
        time.sleep(0.001)  # until its process has ended
    Path(name).write_text(json.dumps(content))
sys.exit(given["exit_code"])
