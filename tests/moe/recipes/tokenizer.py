"""The tokenizer of every recipe: byte-level BPE without merges, so one token is one byte and nothing is downloaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recipes.shape import BOS, EOS, PAD


def byte_symbols() -> list[str]:
    """The 256 printable symbols of GPT-2's byte-level alphabet, in byte order (openai/gpt-2, encoder.py)."""
    kept = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    symbols: dict[int, str] = {b: chr(b) for b in kept}
    for byte in range(256):
        if byte not in symbols:
            symbols[byte] = chr(256 + sum(1 for b in range(byte) if b not in kept))
    return [symbols[b] for b in range(256)]


def build() -> Any:
    """A `PreTrainedTokenizerFast`: 256 bytes, then pad, begin and end; it adds no special token by itself."""
    from tokenizers import Tokenizer
    from tokenizers.decoders import ByteLevel as ByteLevelDecoder
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import PreTrainedTokenizerFast

    vocab = {symbol: i for i, symbol in enumerate(byte_symbols())}
    vocab.update({"<pad>": PAD, "<s>": BOS, "</s>": EOS})
    tokenizer = Tokenizer(BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = ByteLevelDecoder()
    made: Any = PreTrainedTokenizerFast
    return made(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        model_max_length=2048,
    )


def write(folder: Path) -> None:
    """Writes tokenizer.json and its configuration into `folder`."""
    build().save_pretrained(str(folder))
