/*
 * The words of figures, counters and codes of health, as a script that the pages import, so that they have no list of
 * their own.
 */
#include <stdlib.h>

#include <jansson.h>

#include "admin/web/call.h"

#include "common/base/base.h"
#include "common/facts/facts.h"
#include "common/holds/holds.h"

static json_t *table_of_figures(enum fact_scope scope)
{
	static const char *const types[] = { [FACT_COUNT] = "count", [FACT_SOME] = "count", [FACT_FLAG] = "flag",
		[FACT_AGE] = "seconds", [FACT_PACE] = "a minute", [FACT_LEFT] = "ms" };
	json_t *all = json_object();

	for (const struct fact_words *w = facts_table; w < facts_table + FACTS; w++) {
		char *name = alloc_format("%s%s%s", w->object == NULL ? "" : w->object, w->object == NULL ? "" : ".",
		    w->key);

		if (w->scope == scope)
			json_object_set_new(all, name, json_pack("{s:s*, s:s, s:s, s:o*}", "title",
			    w->heading != NULL ? w->heading : w->title, "text", w->text, "type", types[w->type],
			    "in", facts_tables_json(w->in)));
		free(name);
	}
	return all;
}

static json_t *table_of_counters(void)
{
	json_t *all = json_object();

	for (const struct counter_words *w = counters_table; w < counters_table + COUNTERS; w++)
		json_object_set_new(all, w->name, json_pack("{s:s*, s:s, s:b, s:o*}", "title", w->title, "text",
		    w->text, "usual", w->usual, "in", facts_tables_json(w->in)));
	return all;
}

static json_t *table_of_codes(void)
{
	json_t *all = json_object();

	for (int i = 0; i < HEALTH_CODES; i++) {
		const char *name = holds_code_name((enum health_code)i);

		if (name != NULL)
			json_object_set_new(all, name, json_pack("{s:s, s:s*}",
			    "unit", i < HEALTH_HOLDS ? codes_table[i].unit : "1 or 0",
			    "page", i < HEALTH_HOLDS ? codes_table[i].page : NULL));
	}
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
	return &script;
}
