"""The fault stage: is a kernel that was broken on purpose found to be broken?"""
