/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jumps that leave the return address the caller's.
 */
	.text

/* void *dlsym(void *handle, const char *name): where to is decided in C. */
	.globl	dlsym
	.type	dlsym, %function
	.p2align 4
dlsym:
	.cfi_startproc
	hint	#34
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	bl	vs_dlsym_target
	mov	x16, x0
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #32
	.cfi_restore 30
	.cfi_restore 29
	.cfi_def_cfa_offset 0
	br	x16
	.cfi_endproc
	.size	dlsym, . - dlsym

/* void *dlopen(const char *path, int flags): the flags are looked at. */
	.globl	dlopen
	.type	dlopen, %function
	.p2align 4
dlopen:
	.cfi_startproc
	hint	#34
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	mov	w0, w1
	bl	vs_dlopen_target
	mov	x16, x0
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #32
	.cfi_restore 30
	.cfi_restore 29
	.cfi_def_cfa_offset 0
	br	x16
	.cfi_endproc
	.size	dlopen, . - dlopen

/* One stub of 64 bytes for each of vs_driver_slots: count, then go on.  x9
 * to x11 and x16 hold no argument. */
	.globl	vs_tailjump_slots
	.hidden	vs_tailjump_slots
	.hidden	vs_driver_slots
	.hidden	vs_dlsym_target
	.hidden	vs_dlopen_target
	.type	vs_tailjump_slots, %function
	.p2align 6
vs_tailjump_slots:
	.cfi_startproc
	.set	slot, 0
	.rept	64
	.p2align 6
	hint	#34
	adrp	x9, vs_driver_slots + slot
	add	x9, x9, :lo12:vs_driver_slots + slot
	ldr	x16, [x9], #8
1:	ldxr	x10, [x9]
	add	x10, x10, #1
	stxr	w11, x10, [x9]
	cbnz	w11, 1b
	br	x16
	.set	slot, slot + 64
	.endr
	.cfi_endproc
	.size	vs_tailjump_slots, . - vs_tailjump_slots

	.section .note.GNU-stack, "", %progbits
