/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "intercept/deepbind.h"
#include "intercept/resolve.h"
#include "base/driver.h"
#include "base/log.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#define RELOC_CALL R_X86_64_JUMP_SLOT
#define RELOC_DATA R_X86_64_GLOB_DAT
#define RELOC_WORD R_X86_64_64
#elif defined(__aarch64__)
#define RELOC_CALL R_AARCH64_JUMP_SLOT
#define RELOC_DATA R_AARCH64_GLOB_DAT
#define RELOC_WORD R_AARCH64_ABS64
#else
#error "the relocations of this architecture"
#endif

struct image {
	const struct dl_phdr_info *info;
	const ElfW(Sym) *symbols;
	const char *names;
	uintptr_t relro, relro_end;	/* read-only once it is loaded */
	unsigned bound;
};

/* The functions of the C library that lead to the driver. */
struct route {
	const char *name;
	void *real;
	void *common;		/* what other objects find */
};

/* One look at all objects. */
struct search {
	struct route routes[3];
	unsigned long long loads;	/* so many are there to be looked at */
	bool driver;			/* its functions are known */
	bool changed;			/* there are more */
};

#define TRIES 100	/* while other threads go on loading */

static _Atomic bool ever;
static _Atomic(void *) real_dlopen;
static _Atomic unsigned long long seen;	/* loads, looked at to the end */

static void *no_dlopen(const char *path, int flags)
{
	(void)path;
	(void)flags;
	return NULL;
}

void *vs_dlopen_target(int flags)
{
	void *address = atomic_load_explicit(&real_dlopen,
					     memory_order_relaxed);

	if (!address) {
		address = vs_driver_dlsym(RTLD_NEXT, "dlopen");
		if (!address)
			return (void *)no_dlopen;
		atomic_store_explicit(&real_dlopen, address,
				      memory_order_relaxed);
	}
	if (flags & RTLD_DEEPBIND)
		atomic_store_explicit(&ever, true, memory_order_release);
	return address;
}

static bool within(const struct image *image, uintptr_t address)
{
	const ElfW(Phdr) *part = image->info->dlpi_phdr;
	int i;

	for (i = 0; i < image->info->dlpi_phnum; i++)
		if (part[i].p_type == PT_LOAD &&
		    address - image->info->dlpi_addr - part[i].p_vaddr <
		    part[i].p_memsz)
			return true;
	return false;
}

/* The row's real pointer, where the driver has it. */
static void *real_of(const char *name)
{
	int row = vs_driver_row(name);
	void *pointer = NULL;

	if (row >= 0)
		memcpy(&pointer, (const char *)&vs_real + row * sizeof(pointer),
		       sizeof(pointer));
	return pointer;
}

/* What a slot that is bound to @now, or not yet bound, shall be bound to. */
static void *better(const struct search *search, const char *name, void *now,
		    bool unbound)
{
	const struct route *route;
	void *real;

	for (route = search->routes; route->name; route++)
		if (now == route->real ||
		    (unbound && !strcmp(name, route->name)))
			return route->common;
	if (!search->driver || !vs_resolve_like_driver(name))
		return now;
	real = unbound ? real_of(name) : now;
	if (!real || vs_driver_find(real) < 0)
		return now;
	return vs_resolve_pointer(name, real, false);
}

static void bind(struct image *image, uintptr_t slot, void *value)
{
	uintptr_t page = (uintptr_t)getpagesize();
	uintptr_t from = slot & ~(page - 1);
	bool sealed = slot >= image->relro && slot < image->relro_end;

	if (sealed && mprotect((void *)from, page, PROT_READ | PROT_WRITE)) {
		vs_log_warn("%s: a call that goes past vsleep stays so: %s",
			    image->info->dlpi_name, strerror(errno));
		return;
	}
	__atomic_store_n((void **)slot, value, __ATOMIC_RELEASE);
	if (sealed)
		mprotect((void *)from, page, PROT_READ);
	image->bound++;
}

static void look_at(struct image *image, const struct search *search,
		    const ElfW(Rela) *reloc)
{
	uintptr_t slot = image->info->dlpi_addr + reloc->r_offset;
	const ElfW(Sym) *symbol = &image->symbols[ELF64_R_SYM(reloc->r_info)];
	unsigned type = ELF64_R_TYPE(reloc->r_info);
	void *now, *value;
	bool unbound;

	if ((type != RELOC_CALL && type != RELOC_DATA && type != RELOC_WORD) ||
	    symbol->st_shndx != SHN_UNDEF || reloc->r_addend)
		return;
	now = __atomic_load_n((void **)slot, __ATOMIC_ACQUIRE);
	unbound = type == RELOC_CALL && within(image, (uintptr_t)now);
	value = better(search, image->names + symbol->st_name, now, unbound);
	if (value && value != now)
		bind(image, slot, value);
}

/* Addresses in the dynamic section are where the loader has put things, but
 * for the kernel's own object. */
static uintptr_t address_of(const struct image *image, uintptr_t value)
{
	return value < image->info->dlpi_addr ? value + image->info->dlpi_addr
					      : value;
}

static void look_through(struct image *image, const struct search *search,
			 const ElfW(Dyn) *dynamic)
{
	uintptr_t tables[2] = { 0, 0 };
	size_t sizes[2] = { 0, 0 }, i, k;

	for (; dynamic->d_tag != DT_NULL; dynamic++) {
		uintptr_t at = address_of(image, dynamic->d_un.d_ptr);

		if (dynamic->d_tag == DT_SYMTAB)
			image->symbols = (const ElfW(Sym) *)at;
		else if (dynamic->d_tag == DT_STRTAB)
			image->names = (const char *)at;
		else if (dynamic->d_tag == DT_RELA)
			tables[0] = at;
		else if (dynamic->d_tag == DT_JMPREL)
			tables[1] = at;
		else if (dynamic->d_tag == DT_RELASZ)
			sizes[0] = dynamic->d_un.d_val;
		else if (dynamic->d_tag == DT_PLTRELSZ)
			sizes[1] = dynamic->d_un.d_val;
	}
	if (!image->symbols || !image->names)
		return;
	for (k = 0; k < 2; k++)
		for (i = 0; tables[k] && i < sizes[k] / sizeof(ElfW(Rela)); i++)
			look_at(image, search,
				(const ElfW(Rela) *)tables[k] + i);
}

/* The program itself is opened by nobody; the driver calls itself, and we call
 * it, as it is. */
static bool is_left_alone(const struct image *image)
{
	return !image->info->dlpi_name || !image->info->dlpi_name[0] ||
	       within(image, (uintptr_t)vs_deepbind_look) ||
	       within(image, (uintptr_t)vs_real.cuInit);
}

/* What is read-only, whole pages only, as the loader has it; and the dynamic
 * section. */
static const ElfW(Dyn) *find_parts(struct image *image)
{
	const struct dl_phdr_info *info = image->info;
	uintptr_t whole = ~((uintptr_t)getpagesize() - 1);
	const ElfW(Dyn) *dynamic = NULL;
	int i;

	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *)at;
		if (part->p_type != PT_GNU_RELRO)
			continue;
		image->relro = at & whole;
		image->relro_end = (at + part->p_memsz) & whole;
	}
	return dynamic;
}

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
	struct image image = { .info = info };
	struct search *search = data;
	const ElfW(Dyn) *dynamic;

	(void)size;
	search->changed = info->dlpi_adds != search->loads;
	if (search->changed)
		return 1;
	dynamic = find_parts(&image);
	if (!dynamic || is_left_alone(&image))
		return 0;
	look_through(&image, search, dynamic);
	if (image.bound)
		vs_log_debug("%s: %u functions would have come from past "
			     "vsleep by RTLD_DEEPBIND", info->dlpi_name,
			     image.bound);
	return 0;
}

static int count_loads(struct dl_phdr_info *info, size_t size, void *data)
{
	unsigned long long *loads = data;

	(void)size;
	*loads = info->dlpi_adds;
	return 1;
}

/*
 * What another thread is about to load is in the list before the loader has
 * relocated and sealed it.  The real dlsym waits for that thread, so when it
 * is back all that was there before is done; what came since is not touched.
 */
static void look(unsigned long long loads)
{
	struct search search = {
		.routes = {
			{ "dlsym", vs_driver_dlsym(RTLD_NEXT, "dlsym"),
			  (void *)dlsym },
			{ "dlopen", vs_dlopen_target(0), (void *)dlopen },
			{ NULL, NULL, NULL },
		},
		.loads = loads,
	};

	/* The table before this lock: to fill it takes the loader's other. */
	search.driver = vs_driver_load();
	dl_iterate_phdr(visit, &search);
	if (!search.changed)
		atomic_store_explicit(&seen, loads, memory_order_release);
}

/* Apart, so that nothing is prepared for it where it is not needed. */
static __attribute__((noinline)) void look_until_done(void)
{
	unsigned long long loads = 0;
	int saved = errno, tries;

	for (tries = 0; tries < TRIES; tries++) {
		dl_iterate_phdr(count_loads, &loads);
		if (loads == atomic_load_explicit(&seen, memory_order_acquire))
			break;
		look(loads);
	}
	errno = saved;
}

void vs_deepbind_look(void)
{
	if (atomic_load_explicit(&ever, memory_order_acquire))
		look_until_done();
}
