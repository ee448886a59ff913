/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_math - the sum of a page: what page_hash.ptx computes on a device, for
 * bytes that the host can read.  The same bits; needs no CUDA.
 *
 * A page is hashed in three floors, each with random keys of its own:
 *
 * 1. It falls into parts of 256 KiB, and a part into the streams of 256
 *    threads: the 16 bytes, four words, that each has of every 4 KiB step.
 *    NH, sum of (w0 + k0) * (w1 + k1) over pairs of words, makes a stream 64
 *    bits; four times, with the keys shifted by a pair (Toeplitz), which are
 *    the lanes.
 * 2. In each lane NH makes the 256 streams of the part one word of 64 bits;
 *    keys of the lane's own.
 * 3. The lanes of all parts and the size are multiplied by keys of 128 bits
 *    and added up modulo 2^128, twice; the upper halves are the hash.
 *
 * How likely are two different pages the same hash, if neither depends on the
 * keys?  Of one size they differ in a stream of a part.  NH confuses two
 * messages with probability 2^-32 at most, and the lanes of a set of S, for
 * their shifted keys too, with 2^-32S (Black and others, UMAC, 1999).  So all
 * four lanes of the part are the same with (2 * 2^-32)^4 = 2^-124 at most:
 * each lane is confused on floor 1 or, its keys independent, on floor 2.  If
 * one is not, or the sizes differ, a factor on floor 3 differs by d, where 0 <
 * |d| < 2^64; key * d is uniform over the multiples of a power of two up to
 * 2^63, and less than 2^65 of the 2^128 values keep the upper half: 2^-63 for
 * each of the two.  Together less than 2^-123.
 */
#ifndef VS_BACKUP_PAGE_MATH_H
#define VS_BACKUP_PAGE_MATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VS_PAGE ((size_t)2 << 20)
#define VS_PAGE_PART ((size_t)256 << 10)
#define VS_PAGE_PARTS (VS_PAGE / VS_PAGE_PART)
#define VS_PAGE_THREADS 256
#define VS_PAGE_STEP ((size_t)16 * VS_PAGE_THREADS)
#define VS_PAGE_LANES 4

struct vs_page_sum {
	uint64_t hash[2];
	bool zero;	/* exactly: all bytes are */
};

/* Uniformly random.  The first two are what the device has. */
struct vs_page_keys {
	uint32_t step[264];	/* 4 each, 6 for the shift, 2 unused */
	uint32_t thread[VS_PAGE_THREADS][VS_PAGE_LANES][2];
	unsigned __int128 last[2][VS_PAGE_PARTS * VS_PAGE_LANES + 1];
};
#define VS_PAGE_KEYS_ON_DEVICE offsetof(struct vs_page_keys, last)

/* What floor 2 leaves of a part, as the device writes it. */
struct vs_page_part {
	uint64_t lane[VS_PAGE_LANES];
	uint64_t any;	/* 1: a bit is set, else 0 */
};

static inline uint64_t vs_page_math_pair(uint32_t a, uint32_t b,
					 const uint32_t *key)
{
	return (uint64_t)(uint32_t)(a + key[0]) * (uint32_t)(b + key[1]);
}

/* The four words of one thread at one step; returns their bits. */
static inline uint32_t vs_page_math_step(const uint32_t *key,
					 const uint32_t *word,
					 uint64_t *stream)
{
	int lane;

	for (lane = 0; lane < VS_PAGE_LANES; lane++, key += 2)
		stream[lane] += vs_page_math_pair(word[0], word[1], key) +
				vs_page_math_pair(word[2], word[3], key + 2);
	return word[0] | word[1] | word[2] | word[3];
}

/* Floors 1 and 2 of @size bytes, 1 to VS_PAGE_PART; the last words are filled
 * up with zeros. */
static inline void vs_page_math_part(const struct vs_page_keys *keys,
				     const void *data, size_t size,
				     struct vs_page_part *out)
{
	uint64_t stream[VS_PAGE_THREADS][VS_PAGE_LANES] = { { 0 } }, s;
	const char *from = data;
	uint32_t word[4], any = 0;
	size_t at, thread, lane;

	for (at = 0; at < size; at += sizeof(word)) {
		if (size - at < sizeof(word))
			memset(word, 0, sizeof(word));
		memcpy(word, from + at, size - at < sizeof(word) ? size - at :
					sizeof(word));
		thread = at % VS_PAGE_STEP / sizeof(word);
		any |= vs_page_math_step(&keys->step[at / VS_PAGE_STEP * 4],
					 word, stream[thread]);
	}
	memset(out, 0, sizeof(*out));
	out->any = any != 0;
	for (thread = 0; thread < VS_PAGE_THREADS; thread++)
		for (lane = 0; lane < VS_PAGE_LANES; lane++) {
			s = stream[thread][lane];
			out->lane[lane] +=
				vs_page_math_pair((uint32_t)s,
						  (uint32_t)(s >> 32),
						  keys->thread[thread][lane]);
		}
}

/* Floor 3: the sum of a page of @size bytes from its parts. */
static inline void vs_page_math_join(const struct vs_page_keys *keys,
				     const struct vs_page_part *parts,
				     size_t size, struct vs_page_sum *out)
{
	size_t i, half, count = (size + VS_PAGE_PART - 1) / VS_PAGE_PART;
	const unsigned __int128 *key;
	unsigned __int128 sum;
	uint64_t any = 0;

	for (half = 0; half < 2; half++) {
		key = keys->last[half];
		sum = *key++ * size;
		for (i = 0; i < count * VS_PAGE_LANES; i++)
			sum += *key++ * parts[i / VS_PAGE_LANES]
						.lane[i % VS_PAGE_LANES];
		out->hash[half] = (uint64_t)(sum >> 64);
	}
	for (i = 0; i < count; i++)
		any |= parts[i].any;
	out->zero = !any;
}

/* The sum of @size bytes, 1 to VS_PAGE. */
static inline void vs_page_math_sum(const struct vs_page_keys *keys,
				    const void *data, size_t size,
				    struct vs_page_sum *out)
{
	struct vs_page_part parts[VS_PAGE_PARTS];
	size_t at, left;

	for (at = 0; at < size; at += VS_PAGE_PART) {
		left = size - at;
		vs_page_math_part(keys, (const char *)data + at,
				  left < VS_PAGE_PART ? left : VS_PAGE_PART,
				  &parts[at / VS_PAGE_PART]);
	}
	vs_page_math_join(keys, parts, size, out);
}

#endif
