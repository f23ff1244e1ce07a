/* The estimate of arrivals and completions, which the header states. */
#include "sweeper/report/growth.h"

static void compare(struct growth *g, const struct growth_figures *now)
{
	const struct growth_figures *last = &g->last;
	int64_t came = now->size - last->size + now->taken - last->taken;

	g->span_ms = now->at_ms - last->at_ms;
	g->came = came < 0 ? 0 : came;
	g->left = now->finished - last->finished;
	if (now->size <= last->size || g->came <= g->left)
		g->since_ms = 0;
	else if (g->since_ms == 0)
		g->since_ms = last->at_ms;
}

void growth_look(struct growth *g, const struct growth_figures *now)
{
	if (g->last.at_ms != 0 && now->at_ms >= g->last.at_ms && now->at_ms - g->last.at_ms < GROWTH_SPAN_MS)
		return;
	/* Redis went back in time */
	if (g->last.at_ms == 0 || now->at_ms < g->last.at_ms || now->finished < g->last.finished)
		*g = (struct growth){0};
	else
		compare(g, now);
	g->last = *now;
}

double growth_a_minute(const struct growth *g, int64_t n)
{
	return g->span_ms == 0 ? -1 : (double)n * GROWTH_SPAN_MS / (double)g->span_ms;
}

int64_t growth_ms(const struct growth *g, bool bad, int64_t limit_ms)
{
	int64_t ms = g->last.at_ms - g->since_ms;

	if (g->span_ms == 0)
		return -1;
	if (g->since_ms == 0 || (double)g->last.size <= growth_a_minute(g, g->left))
		return 0;
	return bad && ms <= limit_ms ? -1 : ms;
}
