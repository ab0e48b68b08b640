"""The agent: runs on the host's own Python, 3.9 or newer, with nothing but its standard library.

The client packs this folder into one archive (kernelrig.remote.archive) and sends it with every
connection. On the host the archive is imported from memory, to `serve`: facts, blobs, launch,
follow, fetch. Launch has a process forked that stands by: the detached daemon, which runs the
stages of DIR/job.json and writes DIR/journal.jsonl.

The daemon decides by exit codes alone; the client makes the verdicts from the files. Every command
has limits, is ended with all its processes, and is recorded in the journal in every case.

Modules import one another relatively and downwards (import-linter checks it), else the standard
library only:

    serve, __main__ -> slurm_job -> slurm_agents
        -> { start follow collect run_list idle_watch, runner } -> { attempt agents }
        -> { looks core_dump result_cache }
        -> { children workdir facts gpu_health gpu_rates integrity } -> earlier -> gpu_figures
        -> { daemon blobs journal slurm wire tools gpu_add gpu_load cuda_gdb packed }
        -> { disk standby stage_folder gpu_query } -> { process_table remote_variables }
        -> { refusal module_text }

`importer` is separate: it imports the others from the archive.
"""
