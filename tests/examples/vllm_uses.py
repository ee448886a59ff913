#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The three uses of an inference server's sleep mode, with vsleep.

    vsleepctl run python3 vllm_uses.py [MiB of weights [MiB of cache]]

It allocates with the driver API, so it needs nothing but Python, and checks
every byte that it may rely on.
"""
import ctypes
import sys

MIB = 1 << 20
OFFLOAD, DISCARD = 0, 1         # enum vsleep_policy
AWAKE, ASLEEP, PARTLY = 0, 3, 5  # enum vsleep_state


class Reply(ctypes.Structure):
    """struct vsleep_reply"""
    _fields_ = (
        [("size", ctypes.c_size_t), ("state", ctypes.c_int),
         ("held", ctypes.c_int)] +
        [(name, ctypes.c_uint64) for name in (
            "sequence", "released", "restored", "copied", "kept", "lost",
            "unmanaged", "resident", "evicted", "backed_up")] +
        [("seconds", ctypes.c_double), ("message", ctypes.c_char * 256)])


class Vsleep:
    """include/vsleep.h.  CDLL lets go of the interpreter during a call."""

    SIGNATURES = {
        "tag_push": [ctypes.c_char_p],
        "tag_pop": [],
        "policy_set": [ctypes.c_char_p, ctypes.c_int],
        "sleep": [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint,
                  ctypes.c_double, ctypes.POINTER(Reply)],
        "wake": [ctypes.c_char_p, ctypes.c_uint, ctypes.c_double,
                 ctypes.POINTER(Reply)],
        "pause": [ctypes.c_double, ctypes.POINTER(Reply)],
        "resume": [ctypes.POINTER(Reply)],
        "status": [ctypes.POINTER(Reply)],
    }

    def __init__(self):
        program = ctypes.CDLL(None)
        try:
            for name, types in self.SIGNATURES.items():
                function = getattr(program, "vsleep_" + name)
                function.argtypes = types
                setattr(self, "_" + name, function)
        except AttributeError:
            sys.exit("vsleep is not here: start this with vsleepctl run")

    def tag_push(self, tag):
        check(self._tag_push(tag.encode()), "push")

    def tag_pop(self):
        check(self._tag_pop(), "pop")

    def policy_set(self, tag, policy):
        check(self._policy_set(tag.encode(), policy), "policy")

    def ask(self, name, *args):
        """Call sleep, wake, pause, resume or status; the reply."""
        reply = Reply(size=ctypes.sizeof(Reply))
        result = getattr(self, "_" + name)(*args, ctypes.byref(reply))
        if result:
            sys.exit(f"{name}: {reply.message.decode()} ({result})")
        return reply

    def sleep(self, level=1, tags=None):
        return self.ask("sleep", level, tags and tags.encode(), 0, -1)

    def wake(self, tags=None):
        return self.ask("wake", tags and tags.encode(), 0, 60)


def check(result, what):
    if result:
        sys.exit(f"{what}: error {result}")


class Memory:
    """Device memory with a tag."""

    def __init__(self, tag, size):
        self.size = size
        self.address = ctypes.c_uint64()
        vsleep.tag_push(tag)
        check(cuda.cuMemAlloc_v2(ctypes.byref(self.address),
                                 ctypes.c_size_t(size)), "cuMemAlloc")
        vsleep.tag_pop()

    def write(self, content):
        check(cuda.cuMemcpyHtoD_v2(self.address, content,
                                   ctypes.c_size_t(self.size)),
              "cuMemcpyHtoD")

    def read(self):
        host = ctypes.create_string_buffer(self.size)
        check(cuda.cuMemcpyDtoH_v2(host, self.address,
                                   ctypes.c_size_t(self.size)),
              "cuMemcpyDtoH")
        return host.raw

    def free(self):
        check(cuda.cuMemFree_v2(self.address), "cuMemFree")


def pattern(size, seed):
    """Bytes that repeat every 251 of them, so no page is like the next."""
    one = bytes((i * seed + i // 7) % 256 for i in range(251))
    return (one * (size // 251 + 1))[:size]


def expect(what, good):
    if not good:
        sys.exit(f"{what}: no")
    print(f"  {what}")


def give_the_device_away(weights, cache, content):
    print("weights to the host, the cache dropped")
    reply = vsleep.sleep(1)
    expect(f"{reply.released >> 20} MiB released",
           reply.state == ASLEEP and not reply.resident and
           reply.released >= weights.size + cache.size)
    expect(f"{reply.copied >> 20} MiB copied",
           weights.size <= reply.copied < weights.size + cache.size)
    vsleep.wake()
    expect("the weights are as they were", weights.read() == content)
    expect("the cache is zero", cache.read() == bytes(cache.size))


def load_new_weights(weights, cache, content):
    print("new weights: nothing copied, woken in two stages")
    reply = vsleep.sleep(2)
    expect("no byte was copied", reply.state == ASLEEP and not reply.copied)
    reply = vsleep.wake("weights")
    expect("the cache sleeps while they load",
           reply.state == PARTLY and reply.evicted >= cache.size)
    expect("the old weights are gone",
           weights.read() == bytes(weights.size))
    weights.write(content)
    vsleep.wake("kv_cache")
    expect("the new weights are there", weights.read() == content)
    expect("the cache is zero", cache.read() == bytes(cache.size))


def drop_the_cache_alone(weights, cache, content):
    print("paused, the cache alone is given away")
    cache.write(pattern(cache.size, 5))
    reply = vsleep.ask("pause", -1)
    expect("the program is held", reply.held)
    reply = vsleep.sleep(1, "kv_cache")
    expect("the weights stay on the device",
           reply.state == PARTLY and reply.resident >= weights.size and
           reply.evicted >= cache.size)
    vsleep.wake("kv_cache")
    reply = vsleep.ask("resume")
    expect("it runs again", not reply.held and reply.state == AWAKE)
    expect("the weights are as they were", weights.read() == content)
    expect("the cache is zero", cache.read() == bytes(cache.size))


def main():
    sizes = [int(word) * MIB for word in sys.argv[1:3]]
    sizes += [64 * MIB, 32 * MIB][len(sizes):]
    vsleep.policy_set("weights", OFFLOAD)
    vsleep.policy_set("kv_cache", DISCARD)
    context = ctypes.c_void_p()
    check(cuda.cuInit(0), "cuInit")
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "context")
    check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")

    first, second = pattern(sizes[0], 3), pattern(sizes[0], 11)
    weights = Memory("weights", sizes[0])
    cache = Memory("kv_cache", sizes[1])
    weights.write(first)
    cache.write(pattern(cache.size, 5))
    give_the_device_away(weights, cache, first)
    load_new_weights(weights, cache, second)
    drop_the_cache_alone(weights, cache, second)
    cache.free()
    weights.free()
    check(cuda.cuDevicePrimaryCtxRelease_v2(0), "cuDevicePrimaryCtxRelease")


vsleep = Vsleep()
cuda = ctypes.CDLL("libcuda.so.1")
main()
