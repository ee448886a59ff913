/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlsym - the C half of the exported dlsym, whose entry is in tailjump-*.S.
 *
 * What RTLD_DEFAULT and RTLD_NEXT mean depends on who calls, so these, and
 * all names that are not the driver's, leave by a tail jump to the real
 * function.  So does dlopen, intercept/deepbind.h.
 */
#ifndef VS_INTERCEPT_DLSYM_H
#define VS_INTERCEPT_DLSYM_H

/* Where a call of dlsym with these arguments is to jump to. */
void *vs_dlsym_target(void *handle, const char *name);

#endif
