/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elf_file - what the file of a program or a library says of itself.
 */
#ifndef TOOLS_ELF_FILE_H
#define TOOLS_ELF_FILE_H

#include <stdbool.h>

struct elf {
	bool is_elf;		/* else the rest says nothing */
	bool native;		/* for the architecture of this program */
	int bits;		/* 32 or 64 */
	unsigned machine;	/* EM_... */
	bool library;		/* it has a name (DT_SONAME), as the loader */
	char interp[256];	/* its loader; "" for a static program */
	unsigned glibc_needed;	/* minor number of GLIBC_2.N; 0: none */
	unsigned glibc_defined;	/* likewise, for a C library */
};

/* False, with errno, when the file cannot be read. */
bool elf_read(const char *path, struct elf *out);

/* "x86-64", "aarch64", ... or "machine N", in a buffer of the caller's. */
const char *elf_machine(unsigned machine, char buf[32]);

#endif
