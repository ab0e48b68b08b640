"""What a kernel must compute: the inputs that every side agrees on, and their outputs."""
