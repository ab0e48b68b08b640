"""A library that measures a program's kernels from within, by CUPTI's activity records.

It is compiled here from injection.cpp, and shipped to hosts together with CUPTI's own library.
"""
