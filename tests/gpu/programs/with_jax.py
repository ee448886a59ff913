# SPDX-License-Identifier: Apache-2.0
"""JAX: compiled steps on arrays that are given back and made anew.

Small whole numbers, so that every sum is exact whatever kernels are chosen.
How JAX takes its memory is up to XLA_PYTHON_CLIENT_*.
"""

import time

import prog

numpy = prog.need("numpy")
jax = prog.need("jaxlib", "jax")
jnp = jax.numpy

SIDE = 2048
STEPS = prog.steps(500)


def small(x, side=9):
    return jnp.mod(x, side) - side // 2


@jax.jit
def step_of(weights, x, n):
    value = jnp.sum(small(jnp.dot(x, weights, precision="highest")))
    grad = jax.grad(lambda w: jnp.vdot(x, w))(weights)
    weights = small(weights + grad + jnp.dot(x, weights.T,
                                             precision="highest"))
    x = small(x + n + jnp.roll(x, 1, axis=0))
    return weights, x, value


def main():
    if jax.default_backend() != "gpu":
        prog.leave(f"no GPU in JAX: {jax.default_backend()}")
    index = jnp.arange(SIDE * SIDE, dtype=jnp.uint32)
    words = (index * jnp.uint32(2654435761)) >> 9
    weights = small(words.astype(jnp.float32) % 1000).reshape(SIDE, SIDE)
    x = jnp.roll(weights, 7, axis=1)
    kept = []
    for step in range(1, STEPS + 1):
        weights, x, value = step_of(weights, x, float(step % 5))
        # arrays of other sizes come and go
        kept.append(jnp.full((step % 50 + 1, 65536), step, dtype=jnp.int32))
        kept = kept[-4:]
        said = int(value)
        if step % 25 == 0:
            more = sum(int(k.sum()) for k in kept)
            print(f"step {step} value {said} kept {more}", flush=True)
        time.sleep(0.01)
        prog.progress(step)
    print("done", prog.digest([numpy.asarray(weights), numpy.asarray(x)]))


main()
