# SPDX-License-Identifier: Apache-2.0
"""Transformers: a language model of 300 million random weights writes text.

Greedy, in half precision; the tokens are printed.  Nothing is downloaded.
"""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import prog  # noqa: E402

torch = prog.need("torch")
transformers = prog.need("transformers")

TOKENS = 48
ROUNDS = prog.steps(10)


class Progress(transformers.LogitsProcessor):
    """Called for every token; changes nothing."""

    count = 0

    def __call__(self, input_ids, scores):
        self.count += 1
        prog.progress(self.count)
        torch.cuda._sleep(10000000)
        return scores


def main():
    torch.manual_seed(23)
    config = transformers.LlamaConfig(
        vocab_size=32000, hidden_size=1024, intermediate_size=2816,
        num_hidden_layers=18, num_attention_heads=16, num_key_value_heads=8,
        max_position_embeddings=1024, bos_token_id=None, eos_token_id=None,
        pad_token_id=0,
    )
    model = transformers.LlamaForCausalLM(config).half().cuda().eval()
    processors = transformers.LogitsProcessorList([Progress()])
    prompts = (torch.arange(4 * 16).reshape(4, 16) * 7919 + 1) % 32000
    for number in range(1, ROUNDS + 1):
        with torch.no_grad():
            out = model.generate(
                prompts.cuda(), attention_mask=torch.ones_like(prompts).cuda(),
                do_sample=False, max_new_tokens=TOKENS, pad_token_id=0,
                logits_processor=processors,
            )
        print(f"round {number} tokens", prog.digest([out.cpu().numpy()]),
              flush=True)
        prompts = out[:, -16:].cpu()
    print("done", *out[0, -16:].tolist())


main()
