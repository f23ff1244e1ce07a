/*
 * The order of loading: files, environment, defaults, checks. Each step reports and goes on, so that
 * all that is wrong is told at once. Calls nothing that changes the process: a running master reloads with it.
 */
#include <locale.h>
#include <stdlib.h>

#include "common/conf.h"

#include "common/alloc.h"
#include "common/conf_load.h"

static void load_file(struct conf_loading *l, const char *path)
{
	struct conf_source source;

	if (conf_source_read(l, path, &source) == 0 && conf_scan(l, &source) == 0)
		conf_parse(l, &source);
	else
		l->broken = true;
	conf_source_free(&source);
}

static void load_files(struct conf_loading *l, const char *path)
{
	char **fragments = conf_fragments(l, path);

	load_file(l, path);
	for (size_t i = 0; fragments[i] != NULL; i++) {
		load_file(l, fragments[i]);
		free(fragments[i]);
	}
	free(fragments);
}

static void load(struct conf_loading *l, const char *path)
{
	if (path != NULL)
		load_files(l, path);
	if (l->broken)
		return;
	conf_merge_environment(l);
	conf_merge_defaults(l);
	conf_check(l);
}

static struct conf *load_for(const char *path, unsigned flags, const char *only, struct conf_report *report)
{
	struct conf_loading l = { .conf = conf_new(), .flags = flags, .only = only };
	locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0), before = (locale_t)0;

	if (c != (locale_t)0)	/* libconfig and strtod read a decimal point only here */
		before = uselocale(c);
	conf_queue_init(&l.defaults);
	load(&l, path);
	conf_queue_release(&l.defaults);
	free(l.modes);
	conf_report_fill(&l, report);
	if (c != (locale_t)0) {
		uselocale(before);
		freelocale(c);
	}
	if (report->errors == 0)
		return l.conf;
	conf_free(l.conf);
	return NULL;
}

struct conf *conf_load(const char *path, unsigned flags, struct conf_report *report)
{
	return load_for(path, flags, NULL, report);
}

struct conf *conf_load_to_run(const char *path, const char *queue, struct conf_report *report)
{
	return load_for(path, 0, queue, report);
}
