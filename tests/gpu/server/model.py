# SPDX-License-Identifier: Apache-2.0
"""A language model of random weights for llama.cpp, in half precision.

model.py FILE: about 420 MiB as GGUF, the same at each call.  It has bytes and
made-up words for tokens; what it writes means nothing.
"""

import struct
import sys

import numpy

WIDTH, FORWARD, LAYERS, VOCABULARY = 1024, 2816, 16, 8192
HEADS, HEADS_KV = 16, 8
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
SINGLE, HALF = 0, 1
ALIGN = 32


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


PACK = {
    U32: lambda v: struct.pack("<I", v),
    I32: lambda v: struct.pack("<i", v),
    F32: lambda v: struct.pack("<f", v),
    BOOL: lambda v: struct.pack("<?", v),
    STRING: text,
}


def pair(key, kind, value, item=None):
    head = text(key) + struct.pack("<I", kind)
    if kind != ARRAY:
        return head + PACK[kind](value)
    return head + struct.pack("<IQ", item, len(value)) + b"".join(
        PACK[item](v) for v in value)


def vocabulary():
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{n:02X}>" for n in range(256)]
    kinds = [2, 3, 3] + [6] * 256
    for n in range(VOCABULARY - len(tokens)):
        word = ""
        while True:
            word += "aeiou"[n % 5] + "bdfgklmnprstvz"[n // 5 % 14]
            n //= 70
            if not n:
                break
        tokens.append("\u2581" + word)
        kinds.append(1)
    return tokens, [-float(n) for n in range(len(tokens))], kinds


def pairs():
    tokens, scores, kinds = vocabulary()
    return [
        pair("general.architecture", STRING, "llama"),
        pair("general.name", STRING, "random"),
        pair("general.alignment", U32, ALIGN),
        pair("llama.context_length", U32, 2048),
        pair("llama.embedding_length", U32, WIDTH),
        pair("llama.block_count", U32, LAYERS),
        pair("llama.feed_forward_length", U32, FORWARD),
        pair("llama.attention.head_count", U32, HEADS),
        pair("llama.attention.head_count_kv", U32, HEADS_KV),
        pair("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
        pair("llama.rope.dimension_count", U32, WIDTH // HEADS),
        pair("llama.vocab_size", U32, VOCABULARY),
        pair("tokenizer.ggml.model", STRING, "llama"),
        pair("tokenizer.ggml.tokens", ARRAY, tokens, STRING),
        pair("tokenizer.ggml.scores", ARRAY, scores, F32),
        pair("tokenizer.ggml.token_type", ARRAY, kinds, I32),
        pair("tokenizer.ggml.bos_token_id", U32, 1),
        pair("tokenizer.ggml.eos_token_id", U32, 2),
        pair("tokenizer.ggml.unknown_token_id", U32, 0),
        pair("tokenizer.ggml.add_bos_token", BOOL, True),
    ]


def shapes():
    """Name and shape, the last dimension the one that lies together."""
    side = WIDTH // HEADS * HEADS_KV
    yield "token_embd.weight", (VOCABULARY, WIDTH)
    yield "output_norm.weight", (WIDTH,)
    yield "output.weight", (VOCABULARY, WIDTH)
    for n in range(LAYERS):
        yield f"blk.{n}.attn_norm.weight", (WIDTH,)
        yield f"blk.{n}.attn_q.weight", (WIDTH, WIDTH)
        yield f"blk.{n}.attn_k.weight", (side, WIDTH)
        yield f"blk.{n}.attn_v.weight", (side, WIDTH)
        yield f"blk.{n}.attn_output.weight", (WIDTH, WIDTH)
        yield f"blk.{n}.ffn_norm.weight", (WIDTH,)
        yield f"blk.{n}.ffn_gate.weight", (FORWARD, WIDTH)
        yield f"blk.{n}.ffn_up.weight", (FORWARD, WIDTH)
        yield f"blk.{n}.ffn_down.weight", (WIDTH, FORWARD)


def tensor(random, shape):
    if len(shape) == 1:
        return numpy.ones(shape, numpy.float32)
    values = random.random(shape, numpy.float32) - 0.5
    return (values * (12 / shape[1]) ** 0.5).astype(numpy.float16)


def padded(size):
    return (size + ALIGN - 1) // ALIGN * ALIGN


def main():
    head = pairs()
    infos = []
    at = 0
    for name, shape in shapes():
        kind = SINGLE if len(shape) == 1 else HALF
        infos.append(text(name) + struct.pack("<I", len(shape)) + b"".join(
            struct.pack("<Q", n) for n in reversed(shape)) + struct.pack(
            "<IQ", kind, at))
        at += padded(int(numpy.prod(shape)) * (4 if kind == SINGLE else 2))
    random = numpy.random.default_rng(2024)
    with open(sys.argv[1], "wb") as out:
        out.write(b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(head)))
        out.write(b"".join(head) + b"".join(infos))
        out.write(bytes(padded(out.tell()) - out.tell()))
        for _, shape in shapes():
            data = tensor(random, shape).tobytes()
            out.write(data + bytes(padded(len(data)) - len(data)))


main()
