"""Verdicts on a build without a GPU: resources, SASS, warp roles, PTX, fingerprint."""
