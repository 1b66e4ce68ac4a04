"""The version of this program, read by packaging and written into every run folder."""

VERSION = "0.1.0"
