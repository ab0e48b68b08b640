"""The checksum stage: is every element of the output right?"""
