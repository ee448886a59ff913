/* SPDX-License-Identifier: Apache-2.0 */
/*
 * library - which libvsleep.so a program is started with, and whether the
 * loader takes it.
 */
#ifndef TOOLS_LIBRARY_H
#define TOOLS_LIBRARY_H

#include <limits.h>
#include <stdbool.h>

/*
 * VSLEEP_LIBRARY, else that of the build tree that vsleepctl lies in, else the
 * installed one.  False: there is none, and @why (may be NULL) says where it
 * was looked for.
 */
bool library_find(char out[PATH_MAX], char why[PATH_MAX + 128]);

/*
 * Put it into LD_PRELOAD, before what the user preloads; false, with a line on
 * stderr, when that cannot be said there.
 */
bool library_preload(const char *library);

/*
 * Start a harmless program with what LD_PRELOAD names, @library first.  False,
 * after a line on stderr: it does not start, or the loader leaves @library
 * out.  A library that wants a newer C library would end every program.
 */
bool library_try(const char *library);

#endif
