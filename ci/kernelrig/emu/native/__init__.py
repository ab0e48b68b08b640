"""The native engine: the machine in C++, behind the NumPy engine's interfaces.

How it works. `encode` writes a program as tables of words, `core/` runs them: scheduler, registers,
batches and their divergence are the core's. An instruction runs in its handler (`Step.native` names
it), and where it has none, or where the handler sees something unusual before it has changed
anything, the core calls back for the Python step. What is unusual is reported there, so every
finding has its words in one place.

    core_scheduler   what the core calls back for; starts waves, ends runs
    machine_facade   the core's machine as a `Machine`
    batch_facade     a batch as a `WarpBatch`; register_files has its registers, waiting_keys what
                     it waits for, operation_queue the operations in flight
    step_functions   the Python function of one instruction, made when it is called for
    operand_places   where an operand lies, so that its handler sees exact types only
    sync             the parts of a machine that the core keeps; with barrier_uses,
                     operation_groups and warpgroups. barrier_words are what they share with it
    observers        which observers the core has or tells itself, and what others hear: races and
                     publication, whose state is in the core, and memory, which has their tables
"""
