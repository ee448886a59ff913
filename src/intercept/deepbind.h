/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deepbind - objects that are opened with RTLD_DEEPBIND find the driver's own
 * functions before ours: memory would go past us, and memory of ours come to a
 * free that does not know it.
 *
 * Once the program has opened one such object, each look-up through our dlsym
 * sees whether objects were loaded since the last one.  In those, what the
 * loader has bound, or would bind at the first call, to the driver, to the C
 * library's dlsym or to its dlopen is bound to what all other objects find
 * there.  Everything else that such an object asked for stays as it is.
 *
 * Not seen: what an object's constructors call, and pointers that it has
 * fetched before.  No lock of ours; the loader's is held meanwhile, which is
 * the one that dl_iterate_phdr takes.
 */
#ifndef VS_INTERCEPT_DEEPBIND_H
#define VS_INTERCEPT_DEEPBIND_H

/* Where a call of dlopen with these flags is to jump to. */
void *vs_dlopen_target(int flags);

/* Bind what was loaded since the last look.  A load and a branch where no such
 * object was ever opened.  errno and dlerror stay as they were. */
void vs_deepbind_look(void);

#endif
