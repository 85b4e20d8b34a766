"""A tiny model of random weights in the GGUF format, which needs no library: what it says makes no sense."""

from __future__ import annotations

import random
import struct
from pathlib import Path

TEMPLATE = (
    "{% if tools %}<|im_start|>tools\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content or '' }}"
    "{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WIDTH, HEADS, INNER, LAYERS = 32, 2, 64, 1
_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
"""The kinds of a value of the head, as the format numbers them; those of a token below."""
_NORMAL, _UNKNOWN, _CONTROL, _MARK, _BYTE = 1, 2, 3, 4, 6


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def _number(value: int) -> bytes:
    return struct.pack("<I", value)


def _array(kind: int, values: list[bytes]) -> bytes:
    return struct.pack("<IQ", kind, len(values)) + b"".join(values)


def write_model(path: Path, context: int) -> None:
    """Write the model, which reads at most `context` tokens; a token is a byte, or one of the marks of a message."""
    tokens = [("<unk>", _UNKNOWN), ("<s>", _CONTROL), ("</s>", _CONTROL)]
    tokens += [(f"<0x{byte:02X}>", _BYTE) for byte in range(256)]
    tokens += [(chr(code), _NORMAL) for code in range(32, 127)] + [("\u2581", _NORMAL)]
    tokens += [("<|im_start|>", _MARK), ("<|im_end|>", _CONTROL)]
    fields = {
        "general.architecture": (_STRING, _text("llama")),
        "general.name": (_STRING, _text("tiny")),
        "llama.block_count": (_UINT32, _number(LAYERS)),
        "llama.context_length": (_UINT32, _number(context)),
        "llama.embedding_length": (_UINT32, _number(WIDTH)),
        "llama.feed_forward_length": (_UINT32, _number(INNER)),
        "llama.attention.head_count": (_UINT32, _number(HEADS)),
        "llama.attention.layer_norm_rms_epsilon": (_FLOAT32, struct.pack("<f", 1e-5)),
        "llama.rope.dimension_count": (_UINT32, _number(WIDTH // HEADS)),
        "tokenizer.ggml.model": (_STRING, _text("llama")),
        "tokenizer.ggml.tokens": (_ARRAY, _array(_STRING, [_text(text) for text, _ in tokens])),
        "tokenizer.ggml.scores": (_ARRAY, _array(_FLOAT32, [struct.pack("<f", 0.0)] * len(tokens))),
        "tokenizer.ggml.token_type": (_ARRAY, _array(_INT32, [_number(kind) for _, kind in tokens])),
        "tokenizer.ggml.bos_token_id": (_UINT32, _number(1)),
        "tokenizer.ggml.eos_token_id": (_UINT32, _number(len(tokens) - 1)),
        "tokenizer.ggml.unknown_token_id": (_UINT32, _number(0)),
        "tokenizer.ggml.add_space_prefix": (_BOOL, b"\0"),
        "tokenizer.ggml.add_bos_token": (_BOOL, b"\0"),
        "tokenizer.chat_template": (_STRING, _text(TEMPLATE)),
    }
    shapes = {
        "token_embd.weight": (WIDTH, len(tokens)),
        "output_norm.weight": (WIDTH,),
        "output.weight": (WIDTH, len(tokens)),
    }
    for layer in range(LAYERS):
        at = f"blk.{layer}"
        shapes |= {f"{at}.{name}_norm.weight": (WIDTH,) for name in ("attn", "ffn")}
        shapes |= {f"{at}.attn_{name}.weight": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")}
        shapes |= {
            f"{at}.ffn_gate.weight": (WIDTH, INNER),
            f"{at}.ffn_up.weight": (WIDTH, INNER),
            f"{at}.ffn_down.weight": (INNER, WIDTH),
        }
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(fields))
    for name, (kind, value) in fields.items():
        head += _text(name) + struct.pack("<I", kind) + value
    offset, chance, data = 0, random.Random(8), b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        head += (
            _text(name)
            + struct.pack("<I", len(shape))
            + b"".join(struct.pack("<Q", one) for one in shape)
            + struct.pack("<IQ", 0, offset)
        )
        spread = 0.2 if name == "output.weight" else 0.5
        values = [1.0] * count if len(shape) == 1 else [chance.gauss(0, spread) for _ in range(count)]
        if name == "output.weight":
            # The end is likely in some states and not in others: an answer has some dozens of tokens.
            values[-WIDTH:] = [0.35] * WIDTH
        piece = struct.pack(f"<{count}f", *values)
        piece += b"\0" * (-len(piece) % 32)
        data += piece
        offset += len(piece)
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)
