"""The agent: runs on the host's own Python, 3.9 or newer, with nothing but its standard library.

The client packs this folder into one archive (kernelrig.remote.archive) and sends it with every
connection. On the host the archive is imported from memory, to `serve`: facts, blobs, launch,
follow, fetch. Launch writes the same bytes beside the run, as agent.pyz; `python agent.pyz run DIR
LOCK` is the detached daemon that runs the stages of DIR/job.json and writes DIR/journal.jsonl.

The daemon decides by exit codes alone; the client makes the verdicts from the files. Every command
has limits, is ended with all its processes, and is recorded in the journal in every case.

Modules import one another relatively and downwards (import-linter checks it), else the standard
library only:

    serve, __main__ -> slurm_job -> slurm_agents
        -> { start follow collect run_list idle_watch, runner } -> { attempt agents }
        -> { looks core_dump result_cache }
        -> { children workdir facts gpu_health integrity } -> earlier -> gpu_figures
        -> { daemon blobs journal slurm wire tools gpu_add cuda_gdb }
        -> { disk process_table stage_folder gpu_query } -> { refusal module_text }

`importer` is separate: it imports the others from the archive.
"""
