"""A sweep of four small runs, for whatever needs one."""

SMALL = """
data = "digits"
examples = 100
params = 2e3
depth = [3, 4]
gain = [1.0, 1.2]
rate_in = 1e-3
epochs = 2
"""
