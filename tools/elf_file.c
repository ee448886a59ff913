/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#else
#define OUR_MACHINE EM_AARCH64
#endif

/* A file that is looked at; nothing in it is believed. */
struct image {
	const char *bytes;
	size_t size;
};

struct dynamic {
	const Elf64_Dyn *entries;
	size_t count;
	const char *strings;	/* NULL: none */
	size_t strings_size;
};

/* The file is mapped at a page, so its offsets tell what is aligned. */
static const void *at(const struct image *image, uint64_t offset, size_t size,
		      size_t align)
{
	if (offset > image->size || image->size - offset < size ||
	    offset % align)
		return NULL;
	return image->bytes + offset;
}

/* What the file has for an address of the loaded image. */
static const void *at_address(const struct image *image, uint64_t address,
			      size_t size, size_t align)
{
	const Elf64_Ehdr *head = (const void *)image->bytes;
	const Elf64_Phdr *p;
	int i;

	for (i = 0; i < head->e_phnum; i++) {
		p = at(image, head->e_phoff + i * sizeof(*p), sizeof(*p), 8);
		if (p && p->p_type == PT_LOAD && address >= p->p_vaddr &&
		    address - p->p_vaddr < p->p_filesz)
			return at(image, address - p->p_vaddr + p->p_offset,
				  size, align);
	}
	return NULL;
}

static uint64_t value_of(const struct dynamic *dynamic, int64_t tag)
{
	size_t i;

	for (i = 0; i < dynamic->count; i++) {
		if (dynamic->entries[i].d_tag == DT_NULL)
			break;
		if (dynamic->entries[i].d_tag == tag)
			return dynamic->entries[i].d_un.d_val;
	}
	return 0;
}

/* N of "GLIBC_2.N" or "GLIBC_2.N.M"; 0 for any other name. */
static unsigned glibc_minor(const struct dynamic *dynamic, uint32_t name)
{
	unsigned minor = 0;

	if (!dynamic->strings || name >= dynamic->strings_size)
		return 0;
	if (sscanf(dynamic->strings + name, "GLIBC_2.%u", &minor) != 1)
		return 0;
	return minor;
}

static unsigned newest_needed(const struct image *image,
			      const struct dynamic *dynamic)
{
	uint64_t files = value_of(dynamic, DT_VERNEEDNUM);
	uint64_t address = value_of(dynamic, DT_VERNEED);
	unsigned newest = 0, minor;
	const Elf64_Vernaux *aux;
	const Elf64_Verneed *need;
	uint64_t at_aux;
	int i;

	for (; files && files < 1000; files--) {
		need = at_address(image, address, sizeof(*need), 4);
		if (!need)
			break;
		at_aux = address + need->vn_aux;
		for (i = 0; i < need->vn_cnt; i++) {
			aux = at_address(image, at_aux, sizeof(*aux), 4);
			if (!aux)
				break;
			minor = glibc_minor(dynamic, aux->vna_name);
			newest = minor > newest ? minor : newest;
			at_aux += aux->vna_next;
		}
		address += need->vn_next;
	}
	return newest;
}

static unsigned newest_defined(const struct image *image,
			       const struct dynamic *dynamic)
{
	uint64_t count = value_of(dynamic, DT_VERDEFNUM);
	uint64_t address = value_of(dynamic, DT_VERDEF);
	unsigned newest = 0, minor;
	const Elf64_Verdaux *aux;
	const Elf64_Verdef *def;

	for (; count && count < 1000; count--) {
		def = at_address(image, address, sizeof(*def), 4);
		if (!def)
			break;
		aux = at_address(image, address + def->vd_aux, sizeof(*aux), 4);
		minor = aux ? glibc_minor(dynamic, aux->vda_name) : 0;
		newest = minor > newest ? minor : newest;
		address += def->vd_next;
	}
	return newest;
}

static void read_dynamic(const struct image *image, const Elf64_Phdr *p,
			 struct elf *out)
{
	struct dynamic dynamic = { .count = p->p_filesz / sizeof(Elf64_Dyn) };

	dynamic.entries = at(image, p->p_offset, p->p_filesz, 8);
	if (!dynamic.entries)
		return;
	dynamic.strings_size = value_of(&dynamic, DT_STRSZ);
	dynamic.strings = at_address(image, value_of(&dynamic, DT_STRTAB),
				     dynamic.strings_size, 1);
	/* The last string must end inside. */
	if (!dynamic.strings_size ||
	    (dynamic.strings &&
	     dynamic.strings[dynamic.strings_size - 1]))
		dynamic.strings = NULL;
	out->library = value_of(&dynamic, DT_SONAME);
	out->glibc_needed = newest_needed(image, &dynamic);
	out->glibc_defined = newest_defined(image, &dynamic);
}

static void read_native(const struct image *image, struct elf *out)
{
	const Elf64_Ehdr *head = at(image, 0, sizeof(*head), 8);
	const Elf64_Phdr *p;
	const char *text;
	int i;

	for (i = 0; head && i < head->e_phnum; i++) {
		p = at(image, head->e_phoff + i * sizeof(*p), sizeof(*p), 8);
		if (!p)
			break;
		text = at(image, p->p_offset, p->p_filesz, 1);
		if (p->p_type == PT_INTERP && text && p->p_filesz)
			snprintf(out->interp, sizeof(out->interp), "%.*s",
				 (int)p->p_filesz, text);
		else if (p->p_type == PT_DYNAMIC)
			read_dynamic(image, p, out);
	}
}

static void read_image(const struct image *image, struct elf *out)
{
	const unsigned char *id = at(image, 0, EI_NIDENT + 4, 1);
	bool big;

	if (!id || memcmp(id, ELFMAG, SELFMAG))
		return;
	big = id[EI_DATA] == ELFDATA2MSB;
	out->is_elf = true;
	out->bits = id[EI_CLASS] == ELFCLASS64 ? 64 : 32;
	out->machine = big ? id[18] << 8 | id[19] : id[19] << 8 | id[18];
	out->native = out->bits == 64 && !big && out->machine == OUR_MACHINE;
	if (out->native)
		read_native(image, out);
}

bool elf_read(const char *path, struct elf *out)
{
	struct image image = { .size = 0 };
	struct stat st;
	void *map;
	int fd;

	memset(out, 0, sizeof(*out));
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0) {
		map = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (map != MAP_FAILED) {
			image.bytes = map;
			image.size = st.st_size;
			read_image(&image, out);
			munmap(map, image.size);
		}
	}
	close(fd);
	return true;
}

const char *elf_machine(unsigned machine, char buf[32])
{
	switch (machine) {
	case EM_X86_64:
		return "x86-64";
	case EM_AARCH64:
		return "aarch64";
	case EM_386:
		return "i386";
	case EM_ARM:
		return "arm";
	case EM_PPC64:
		return "ppc64";
	case EM_RISCV:
		return "riscv";
	}
	snprintf(buf, 32, "machine %u", machine);
	return buf;
}
