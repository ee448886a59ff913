/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every name of the driver has an address here: a weak body that says "not
 * supported", which the real one replaces where another file has it.  The
 * toolkit's header stays out, so that one row serves every prototype.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define NOT_SUPPORTED	801

/* As in sim_internal.h. */
struct sim_entry {
	const char *name;
	atomic_ulong calls;
	atomic_bool listed;
	struct sim_entry *next;
};

int sim_enter(struct sim_entry *entry, bool strict);

#define SIM_ROW(sym, version)						\
int sym(void);								\
__attribute__((weak, visibility("default"))) int sym(void)		\
{									\
	static struct sim_entry entry = { .name = #sym };		\
	int rc = sim_enter(&entry, true);				\
									\
	return rc ? rc : NOT_SUPPORTED;					\
}
#include "sim_versions.def"
#undef SIM_ROW

const struct sim_symbol {
	const char *name;
	int version;
	int (*fn)(void);
} sim_symbols[] = {
#define SIM_ROW(sym, version) { #sym, version, sym },
#include "sim_versions.def"
#undef SIM_ROW
};

const size_t sim_n_symbols = sizeof(sim_symbols) / sizeof(*sim_symbols);
