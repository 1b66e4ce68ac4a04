"""Checkpoints read by public libraries that share no code with ours, in a throwaway environment made for the test.

torchao reads MXFP4 and NVFP4, AutoAWQ reads AWQ, transformers reads block-scaled fp8 (and is in every vLLM image).
compressed-tensors' own formats are read in `test_formats.py`. The throwaway environment sees this one's torch and gets the
libraries from the package index; where none answers these tests are left out.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
import torch
from recipes.make import checkpoint, save, widen

LAYERS = (
    "model.layers.1.mlp.experts.2.down_proj",
    "model.layers.0.mlp.experts.0.gate_proj",
    "model.layers.0.self_attn.k_proj",
)
LIBRARIES = ("torchao==0.18.0", "autoawq==0.2.9", "accelerate==1.15.0", "wheel", "setuptools")

READ = """
import importlib.util, sys
from pathlib import Path
import torch
from safetensors.torch import load_file, save_file

form, folder, layers = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
stored = load_file(folder / "model.safetensors")

def mxfp4(t):
    from torchao.prototype.mx_formats.mx_tensor import to_dtype
    scale = t["weight_scale"].view(torch.float8_e8m0fnu)
    return to_dtype(t["weight"], scale, torch.float4_e2m1fn_x2, 32, torch.float32)

def nvfp4(t):
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor
    made = NVFP4Tensor(t["weight"], t["weight_scale"], 16, torch.float32, per_tensor_scale=t["weight_scale_2"])
    return made.dequantize(torch.float32)

def awq(t):  # the package itself no longer imports with current transformers; the file that unpacks needs torch alone
    root = Path(importlib.util.find_spec("torchao").origin).parents[1]
    spec = importlib.util.spec_from_file_location("packing_utils", root / "awq" / "utils" / "packing_utils.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.dequantize_gemm(t["qweight"], t["qzeros"], t["scales"].float(), 4, 32).T

read = {"mxfp4": mxfp4, "quark_mxfp4": mxfp4, "modelopt_nvfp4": nvfp4, "awq": awq}[form]
out = {}
for layer in layers:
    parts = {n[len(layer) + 1:]: t for n, t in stored.items() if n.startswith(layer + ".")}
    out[layer] = read(parts).contiguous()
save_file(out, folder / "read.safetensors")
"""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a throwaway environment with the libraries."""
    folder = tmp_path_factory.mktemp("readers") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    (site,) = (folder / "lib").glob("python*/site-packages")
    (site / "torch.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = ["install", "--quiet", "--no-deps", "--no-build-isolation", *LIBRARIES]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), *install],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"the libraries could not be installed: {done.stderr.strip()[-200:]}")
    return python


@pytest.mark.parametrize("form", ["mxfp4", "quark_mxfp4", "modelopt_nvfp4", "awq"])
def test_a_public_library_reads_what_the_reference_uses(form: str, reader: Path, tmp_path: Path) -> None:
    """The matrix that the library makes of the stored file is the one our references are computed with."""
    from safetensors.torch import load_file

    stored = checkpoint(f"qwen3moe_{form}")
    save(stored, tmp_path)
    layers = [name for name in LAYERS if f"{name}.weight" in stored.meant]
    assert len(layers) >= 2
    done = subprocess.run(
        [str(reader), "-c", READ, form, str(tmp_path), *layers],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    read = load_file(tmp_path / "read.safetensors")
    for layer in layers:
        wanted = stored.meant[f"{layer}.weight"]
        assert read[layer].shape == wanted.shape
        assert torch.allclose(read[layer], wanted, rtol=1e-5, atol=1e-8), layer


LOGITS = """
import sys
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, FineGrainedFP8Config

model = AutoModelForCausalLM.from_pretrained(
    sys.argv[1], dtype=torch.float32, attn_implementation="eager", quantization_config=FineGrainedFP8Config(dequantize=True)
).eval()
ids = torch.tensor([list(b"amber falcon walnut")])
with torch.no_grad():
    save_file({"logits": model(input_ids=ids, use_cache=False).logits}, sys.argv[1] + "/read.safetensors")
"""


@pytest.mark.parametrize("name", ["qwen3moe_fp8_block", "qwen2moe_fp8_block"])
def test_transformers_reads_block_scaled_fp8(name: str, reader: Path, tmp_path: Path) -> None:
    """The whole checkpoint by `from_pretrained`, dequantized by transformers: the logits that our references come from."""
    from recipes import forward
    from safetensors.torch import load_file

    stored = checkpoint(name)
    save(stored, tmp_path)
    widen(tmp_path)
    argv = [str(reader), "-c", LOGITS, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    with forward.one_thread():
        ours = forward.build(stored, stored.values())
        wanted = ours(input_ids=torch.tensor([list(b"amber falcon walnut")]), use_cache=False).logits
    made = load_file(tmp_path / "read.safetensors")["logits"]
    assert torch.allclose(made, wanted, atol=5e-3), float((made - wanted).abs().max())
