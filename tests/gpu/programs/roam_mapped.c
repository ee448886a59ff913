/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roam - the memory that a thread maps by hand: handles, aliases, read-only
 * mappings, access of another device, and handles that come back as those of
 * another process do.
 */
#include "roam.h"

static CUdeviceptr at(struct thread *t, const struct place *p)
{
	return t->reserved + (size_t)(p - t->places) * t->unit;
}

static void create(struct thread *t, struct handle *h)
{
	if (h->refs || h->maps)
		return;
	t->prop.requestedHandleTypes = t->exports && draw(t, 4) == 0 ?
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
	if (!TRY(cuMemCreate(&h->value, t->unit, &t->prop, 0))) {
		t->short_of++;
		return;
	}
	h->refs = 1;
	h->seed = 0;
	h->fresh = t->napping;
}

static void permit(struct thread *t, struct place *p)
{
	CUmemAccessDesc access[2] = {
		{ .location = t->prop.location },
		{ .location = t->prop.location },
	};

	p->writable = draw(t, 4) != 0;
	p->far = draw(t, 2) && t->other;
	access[0].flags = p->writable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE :
					CU_MEM_ACCESS_FLAGS_PROT_READ;
	if (t->other)
		access[1].location.id = t->other->number;
	access[1].flags = p->far ? CU_MEM_ACCESS_FLAGS_PROT_READ :
				   CU_MEM_ACCESS_FLAGS_PROT_NONE;
	CK(cuMemSetAccess(at(t, p), t->unit, access, t->other ? 2 : 1));
}

static void map(struct thread *t, struct place *p, struct handle *h)
{
	if (p->handle || !h->refs)
		return;
	CK(cuMemMap(at(t, p), t->unit, 0, h->value, 0));
	p->handle = h;
	h->maps++;
	permit(t, p);
}

static bool usable(struct thread *t, const struct place *p)
{
	return p->handle && (!t->napping || p->handle->fresh);
}

static void look(struct thread *t, struct place *p)
{
	if (!usable(t, p) || !p->handle->seed)
		return;
	compare(t, t->device, at(t, p), t->unit / 4, p->handle->seed,
		t->streams[1]);
	CK(cuStreamSynchronize(t->streams[1]));
}

static void write_place(struct thread *t, struct place *p)
{
	if (!usable(t, p) || !p->writable)
		return;
	look(t, p);
	p->handle->seed = write_words(t, at(t, p), t->unit / 4, t->streams[1]);
	CK(cuStreamSynchronize(t->streams[1]));
}

static void unmap(struct thread *t, struct place *p)
{
	if (!p->handle)
		return;
	look(t, p);
	CK(cuMemUnmap(at(t, p), t->unit));
	p->handle->maps--;
	p->handle = NULL;
}

static void release(struct handle *h)
{
	if (!h->refs)
		return;
	CK(cuMemRelease(h->value));
	h->refs--;
}

static void retain(struct thread *t, struct place *p)
{
	CUmemGenericAllocationHandle value;

	if (!p->handle)
		return;
	CK(cuMemRetainAllocationHandle(&value, (void *)at(t, p)));
	p->handle->value = value;
	p->handle->refs++;
}

/* A second handle of the same memory, as another process would have it. */
static void share(struct thread *t, struct place *p, struct handle *h)
{
	CUmemGenericAllocationHandle value;
	int fd;

	if (t->napping || p->handle || !h->refs || !h->seed ||
	    cuMemExportToShareableHandle(&fd, h->value,
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))
		return;
	CK(cuMemImportFromShareableHandle(&value, (void *)(intptr_t)fd,
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	CK(cuMemMap(at(t, p), t->unit, 0, value, 0));
	CK(cuMemRelease(value));
	permit(t, p);
	compare(t, t->device, at(t, p), t->unit / 4, h->seed, t->streams[1]);
	CK(cuStreamSynchronize(t->streams[1]));
	CK(cuMemUnmap(at(t, p), t->unit));
}

static void ask(struct thread *t, const struct place *p)
{
	unsigned long long flags;
	CUmemLocation far = t->prop.location;
	CUdeviceptr base = 0;
	size_t size = 0;

	if (!p->handle)
		return;
	CK(cuMemGetAddressRange(&base, &size, at(t, p) + 4));
	CK(cuMemGetAccess(&flags, &t->prop.location, at(t, p)));
	if (base != at(t, p) || size != t->unit ||
	    (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) != p->writable)
		t->wrong++;
	if (!t->other)
		return;
	far.id = t->other->number;
	CK(cuMemGetAccess(&flags, &far, at(t, p)));
	if (p->far != (flags == CU_MEM_ACCESS_FLAGS_PROT_READ))
		t->wrong++;
}

static void look_from_afar(struct thread *t, const struct place *p)
{
	if (!usable(t, p) || !p->far || !p->handle->seed)
		return;
	CK(cuCtxSetCurrent(t->other->context));
	compare(t, t->other, at(t, p), t->unit / 4, p->handle->seed, t->far);
	CK(cuStreamSynchronize(t->far));
	CK(cuCtxSetCurrent(t->device->context));
}

void roam_step_mapped(struct thread *t)
{
	struct handle *h = &t->handles[draw(t, HANDLES)];
	struct place *p = &t->places[draw(t, PLACES)];

	switch (draw(t, 12)) {
	case 0:
	case 1:
		create(t, h);
		break;
	case 2:
	case 3:
		map(t, p, h);
		break;
	case 4:
		write_place(t, p);
		break;
	case 5:
		unmap(t, p);
		break;
	case 6:
		release(h);
		break;
	case 7:
		retain(t, p);
		break;
	case 8:
		if (p->handle)
			permit(t, p);
		break;
	case 9:
		share(t, p, h);
		break;
	case 10:
		ask(t, p);
		break;
	case 11:
		look_from_afar(t, p);
		break;
	}
}

void roam_end_mapped(struct thread *t)
{
	int i;

	for (i = 0; i < PLACES; i++)
		unmap(t, &t->places[i]);
	for (i = 0; i < HANDLES; i++)
		while (t->handles[i].refs)
			release(&t->handles[i]);
}
