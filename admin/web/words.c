/*
 * The words of figures, counters, codes of health and states of operations that pages read, as a script that they
 * import, so that they have no list of their own.
 */
#include <stdlib.h>

#include <jansson.h>

#include "admin/web/call.h"

#include "admin/operations/operations.h"

#include "common/base/base.h"
#include "common/facts/facts.h"
#include "common/holds/holds.h"

static json_t *table_of_figures(enum fact_scope scope)
{
	json_t *all = json_object();

	for (const struct fact_words *w = facts_table; w < facts_table + FACTS; w++) {
		char *name = alloc_format("%s%s%s", w->object == NULL ? "" : w->object, w->object == NULL ? "" : ".",
		    w->key);

		if (w->scope == scope)
			json_object_set_new(all, name, json_pack("{s:s*, s:s}", "title",
			    w->heading != NULL ? w->heading : w->title, "text", w->text));
		free(name);
	}
	return all;
}

static json_t *table_of_counters(void)
{
	json_t *all = json_object();

	for (const struct counter_words *w = counters_table; w < counters_table + COUNTERS; w++)
		json_object_set_new(all, w->name, json_pack("{s:s, s:b}", "text", w->text, "routine", w->routine));
	return all;
}

/* A code without a page of its own leads to that of the queue. */
static json_t *table_of_codes(void)
{
	json_t *all = json_object();

	for (const struct code_words *w = codes_table; w < codes_table + HEALTH_HOLDS; w++)
		if (w->page != NULL)
			json_object_set_new(all, w->name, json_pack("{s:s}", "page", w->page));
	return all;
}

static json_t *table_of_operation_states(void)
{
	json_t *all = json_object();

	for (const struct operation_state_words *w = operations_states; w < operations_states + OPERATION_STATES; w++)
		json_object_set_new(all, w->name, json_pack("{s:s, s:s, s:b}", "level", w->level, "text", w->text,
		    "can_stop", w->can_stop));
	return all;
}

static void append_table(struct buffer *script, const char *name, json_t *table)
{
	char *text = json_dumps(table, JSON_COMPACT);

	buffer_format(script, "export const %s = %s;\n", name, text == NULL ? "{}" : text);
	free(text);
	json_decref(table);
}

const struct buffer *web_words(void)
{
	static struct buffer script;

	if (script.len > 0)
		return &script;
	append_table(&script, "FIGURES", json_pack("{s:o, s:o}", "queue", table_of_figures(FACT_OF_QUEUE), "host",
	    table_of_figures(FACT_OF_HOST)));
	append_table(&script, "COUNTERS", table_of_counters());
	append_table(&script, "CODES", table_of_codes());
	append_table(&script, "OPERATION_STATES", table_of_operation_states());
	return &script;
}
