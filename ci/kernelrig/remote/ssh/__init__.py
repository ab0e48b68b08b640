"""The client side of SSH: from a record of a remote to a channel on a checked host."""
