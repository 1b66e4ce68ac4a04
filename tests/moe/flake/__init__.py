"""How often does the Quark int8 test fail by itself? Two forms of it, run many times; see docs/cuda.md."""
