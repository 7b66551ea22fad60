"""The kernels in plain Python: the reference for the compiled ones, and what runs where those cannot be built.

`kernels` has all of them under one roof; beside the compiled ones a command needs one of these modules at most.
"""
