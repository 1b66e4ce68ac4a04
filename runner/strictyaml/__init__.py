"""Strict YAML for the files a user writes: text keeps its spelling and place, all mistakes are reported together.

Part of the vocabulary: any room may describe a file as dataclasses of :func:`runner.strictyaml.kinds.key` and read it
with :func:`runner.strictyaml.document.read_record`. This package alone reads YAML.
"""
