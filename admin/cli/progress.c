/* Draws the progress of long work in place. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "admin/cli/progress.h"

#include "common/base/base.h"

#define QUIET_MS 300		/* work shorter than this shows nothing */
#define EVERY_MS 100
#define BAR 24

void progress_begin(struct progress *p, const char *what, int64_t before, int64_t total)
{
	*p = (struct progress){ .what = what, .total = total, .before = before,
	    .terminal = isatty(STDERR_FILENO) == 1 };
	p->started_ms = p->drawn_ms = clock_monotonic_ms();
}

static void draw_line(const struct progress *p, int64_t done, int64_t now_ms)
{
	int64_t rate = (done > p->before ? done - p->before : 0) * 1000 / (now_ms - p->started_ms + 1);
	char bar[BAR + 1];
	int full;

	if (p->total <= 0) {
		fprintf(stderr, "\r%s  %" PRId64 "  %" PRId64 "/s\033[K", p->what, done, rate);
		return;
	}
	if (done > p->total)
		done = p->total;
	full = (int)(done * BAR / p->total);
	memset(bar, '.', BAR);
	memset(bar, '#', (size_t)full);
	bar[BAR] = '\0';
	fprintf(stderr, "\r%s  [%s] %3d%%  %" PRId64 "/%" PRId64 "  %" PRId64 "/s\033[K", p->what, bar,
	    (int)(done * 100 / p->total), done, p->total, rate);
}

void progress_show(struct progress *p, int64_t done)
{
	int64_t now = clock_monotonic_ms();

	if (!p->terminal || now - p->started_ms < QUIET_MS || now - p->drawn_ms < EVERY_MS)
		return;
	draw_line(p, done, now);
	fflush(stderr);
	p->drawn = true;
	p->drawn_ms = now;
}

void progress_end(struct progress *p)
{
	if (p->drawn)
		fputs("\r\033[K", stderr);
	p->drawn = false;
}
