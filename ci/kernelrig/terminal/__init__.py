"""What a person sees while a task runs."""
