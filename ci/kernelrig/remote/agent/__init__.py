"""The on-box agent: runs on the box's own Python, 3.9 or newer, with nothing but its stdlib.

The client packs this folder into one archive (kernelrig.remote.archive) and sends it with every
connection. There the archive is imported from memory, to `serve`: facts, blobs, launch, follow,
fetch. Launch lays the same bytes beside the run, as agent.pyz; `python agent.pyz run DIR LOCK` is
the detached daemon that runs the stages of DIR/job.json and writes DIR/journal.jsonl.

The daemon gates on exit codes alone; verdicts are made by the client from the files. It promises
that every command has limits, ends with all its processes, and is in the journal, come what may.

Modules import one another relatively and downwards (import-linter holds it), else the stdlib only:

    serve, __main__ -> { launch follow collect, run } -> attempt -> { hang once } -> children
        -> { workdir facts gpu_health } -> { daemon blobs journal wire tools gpu_add }
        -> { files processes } -> answer

`memory` stands apart: it is what imports the others from the archive.
"""
