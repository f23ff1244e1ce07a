/* Reading long lists a bit at a time, whatever the size of what is in them. */
#include <stdlib.h>
#include <sysexits.h>

#include "admin/pager.h"

#include "common/alloc.h"

#define BYTES_LOW (256 * 1024)
#define BYTES_HIGH (1024 * 1024)

void pager_learn(struct pager *p, size_t entries, size_t bytes)
{
	if (bytes > BYTES_HIGH && entries > 0)
		p->count = (int64_t)(BYTES_HIGH / (bytes / entries + 1)) + 1;
	else if (bytes < BYTES_LOW)
		p->count *= 2;
	if (p->count > PAGER_MAX)
		p->count = PAGER_MAX;
}

int page_read(struct admin *a, const char *key, int64_t first, int64_t last, struct page *page)
{
	struct redis_reply reply;

	*page = (struct page){0};
	queue_list(&a->redis, key, first, last);
	if (admin_reply(a, &reply, key) == -1)
		return -1;
	if (!redis_is_strings(&reply))
		return admin_fail(a, EX_PROTOCOL, "Redis answered something else than a list");
	page->entries = alloc_zero(reply.n, sizeof(*page->entries));
	for (; page->n < reply.n; page->n++) {
		struct redis_reply e = redis_element(&reply, page->n);
		page->entries[page->n] = (struct queue_bytes){ alloc_copy(e.str, e.len), e.len };
		page->bytes += e.len;
	}
	return 0;
}

void page_free(struct page *page)
{
	for (size_t i = 0; i < page->n; i++)
		free((void *)(uintptr_t)page->entries[i].data);
	free(page->entries);
	*page = (struct page){0};
}
