# SPDX-License-Identifier: Apache-2.0
"""Ask a llama-server: ask.py PORT health, or ask.py PORT SEED for a completion.

The tokens of the completion are printed; it is greedy, so they are the same
each time.
"""

import json
import sys
import urllib.request

PORT, WHAT = sys.argv[1], sys.argv[2]


def ask(path, body=None):
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}/{path}", data,
        {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as reply:
        return json.load(reply)


if WHAT == "health":
    sys.exit(ask("health").get("status") != "ok")
prompt = [1] + [259 + (n * 7919 + int(WHAT)) % 7900 for n in range(200)]
answer = ask("completion", {
    "prompt": prompt, "n_predict": 96, "temperature": 0, "top_k": 1,
    "cache_prompt": False, "ignore_eos": True, "return_tokens": True,
})
print(*answer["tokens"])
sys.exit(len(answer["tokens"]) != 96)
