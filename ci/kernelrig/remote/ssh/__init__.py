"""The SSH client: from a remote's record to a channel on a host whose key was checked."""
