"""Qualify a release of vLLM over a matrix of platform, dtype, tensor parallelism and quantization method."""
