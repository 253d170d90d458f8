"""A seeded fuzzer of the public functions and the command line: values, targets, and what counts as an answer."""
