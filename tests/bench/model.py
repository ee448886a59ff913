# SPDX-License-Identifier: Apache-2.0
"""A decoder of 7 billion random weights in half precision writes 32 tokens.

  decode   the tokens that follow the prompt, greedily; always the same ones

The shape is that of the usual model of that size: 32 layers, 4096 wide, 32
heads, rotary positions, a gated feed-forward of 11008, 32000 tokens.
"""

import talk

torch, DEVICE = talk.torch_and_device()
functional = torch.nn.functional
LAYERS = talk.number("BENCH_LAYERS", 32)
WIDTH = talk.number("BENCH_WIDTH", 4096)
INNER = talk.number("BENCH_INNER", 11008)
HEADS = talk.number("BENCH_HEADS", 32)
VOCABULARY = talk.number("BENCH_VOCABULARY", 32000)
PROMPT = 16
TOKENS = 32
TYPE = torch.float16 if DEVICE == "cuda" else torch.float32


class Norm(torch.nn.Module):
    """By the root of the mean square."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        square = x.float().pow(2).mean(-1, keepdim=True)
        return (x.float() * torch.rsqrt(square + 1e-5)).to(x.dtype) \
            * self.weight


def linear(width, height):
    return torch.nn.Linear(width, height, bias=False)


def rotated(x, at):
    """Queries or keys, [heads, tokens, size], with their positions."""
    half = x.shape[-1] // 2
    speed = 10000.0 ** (-torch.arange(half, device=x.device) / half)
    angle = torch.arange(at, at + x.shape[1], device=x.device)[:, None] * speed
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = torch.nn.ModuleList((Norm(), Norm()))
        self.query, self.key, self.value, self.out = (
            linear(WIDTH, WIDTH) for _ in range(4))
        self.gate, self.up = linear(WIDTH, INNER), linear(WIDTH, INNER)
        self.down = linear(INNER, WIDTH)
        shape = (HEADS, PROMPT + TOKENS, WIDTH // HEADS)
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))

    def attend(self, x, at):
        tokens = x.shape[0]
        query, key, value = (
            project(x).view(tokens, HEADS, -1).transpose(0, 1)
            for project in (self.query, self.key, self.value))
        self.keys[:, at:at + tokens] = rotated(key, at)
        self.values[:, at:at + tokens] = value
        scores = rotated(query, at) @ self.keys[:, :at + tokens] \
            .transpose(1, 2) / (WIDTH // HEADS) ** 0.5
        later = torch.ones(tokens, at + tokens, device=x.device,
                           dtype=torch.bool).triu(at + 1)
        weights = scores.float().masked_fill(later, float("-inf")).softmax(-1)
        mixed = weights.to(x.dtype) @ self.values[:, :at + tokens]
        return self.out(mixed.transpose(0, 1).reshape(tokens, WIDTH))

    def forward(self, x, at):
        x = x + self.attend(self.norms[0](x), at)
        y = self.norms[1](x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = Norm()
        self.head = linear(WIDTH, VOCABULARY)

    def forward(self, tokens, at):
        """The most likely token after these, which begin at that position."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, at)
        return self.head(self.norm(x[-1:])).argmax(-1)


def made():
    """The weights are made where they stay, in their own type."""
    with torch.device("meta"):
        model = Decoder()
    model = model.to(TYPE).to_empty(device=DEVICE).eval()
    torch.manual_seed(7)
    for name, weight in model.state_dict().items():
        if "norm" in name:
            weight.fill_(1)
        elif name.endswith(("keys", "values")):
            weight.zero_()
        else:
            weight.normal_(std=0.02)
    return model


def main():
    with torch.no_grad():
        model = made()
        prompt = torch.arange(PROMPT, device=DEVICE) * 7919 % VOCABULARY

        def decode():
            token, at, found = prompt, 0, []
            for _ in range(TOKENS):
                following = model(token, at)
                at += token.shape[0]
                token = following
                found.append(token.item())
            return "tokens=" + ",".join(map(str, found))

        talk.obey({"decode": decode})


main()
