"""Hosts that are rented: asked for, found again, given back, and named while they are billed."""
