"""Coverage-guided fuzzing of the compiled kernels by libFuzzer (`./dev campaign guided`)."""
