/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jumps that leave the return address the caller's.
 */
#ifdef __CET__
#include <cet.h>
#else
#define _CET_ENDBR
#endif

	.text

/* void *dlsym(void *handle, const char *name): where to is decided in C. */
	.globl	dlsym
	.type	dlsym, @function
	.p2align 4
dlsym:
	.cfi_startproc
	_CET_ENDBR
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	vs_dlsym_target
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	jmp	*%rax
	.cfi_endproc
	.size	dlsym, . - dlsym

/* void *dlopen(const char *path, int flags): the flags are looked at. */
	.globl	dlopen
	.type	dlopen, @function
	.p2align 4
dlopen:
	.cfi_startproc
	_CET_ENDBR
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	movl	%esi, %edi
	call	vs_dlopen_target
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	jmp	*%rax
	.cfi_endproc
	.size	dlopen, . - dlopen

/* One stub of 64 bytes for each of vs_driver_slots: count, then go on. */
	.globl	vs_tailjump_slots
	.hidden	vs_tailjump_slots
	.hidden	vs_driver_slots
	.hidden	vs_dlsym_target
	.hidden	vs_dlopen_target
	.type	vs_tailjump_slots, @function
	.p2align 6
vs_tailjump_slots:
	.cfi_startproc
	.set	slot, 0
	.rept	64
	.p2align 6
	_CET_ENDBR
	lock incq vs_driver_slots + slot + 8(%rip)
	jmp	*vs_driver_slots + slot(%rip)
	.set	slot, slot + 64
	.endr
	.cfi_endproc
	.size	vs_tailjump_slots, . - vs_tailjump_slots

	.section .note.GNU-stack, "", @progbits
