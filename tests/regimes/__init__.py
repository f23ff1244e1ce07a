"""The short forms of the long regimes: chaos, crash points, faults, fuzzing, large messages, model, mutants, benchmarks."""
