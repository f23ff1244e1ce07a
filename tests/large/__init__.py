"""Large messages over a slow link, whatever becomes of them: the acceptance of their size, speed and memory.

cells.py brings one message of one size to one end; acceptance.py goes through all of them, holds each against what is
promised and makes the table; measure.py looks on. `make soak-large` is the whole, tests/regimes/test_large.py a part of it.
"""
