"""What a person sees while a task runs, and text made safe to be shown."""
