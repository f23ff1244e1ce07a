/* exit_codes = { done = [0]; retry = [75]; escape = [65]; fail = [..]; }: what an exit status means. */
#include <string.h>

#include <libconfig.h>

#include "common/conf_codes.h"

#include "common/nitems.h"

static const struct {
	const char *name;
	enum conf_outcome outcome;
} outcomes[] = {
	{ "done", CONF_OUTCOME_DONE },
	{ "retry", CONF_OUTCOME_RETRY },
	{ "escape", CONF_OUTCOME_ESCAPE },
	{ "fail", CONF_OUTCOME_FAIL },
};

struct codes {
	struct conf_loading *l;
	const struct conf_source *source;
	enum conf_outcome *map;
	bool given[256];
	bool bad;
};

static void complain(struct codes *c, const config_setting_t *s, const char *what, const char *name)
{
	struct conf_origin where = { CONF_ORIGIN_FILE, (int)config_setting_source_line(s), c->source->name };

	conf_error(c->l, &where, "exit_codes.%s: %s", name, what);
	c->bad = true;
}

static void read_code(struct codes *c, const config_setting_t *s, const char *name, enum conf_outcome outcome)
{
	int code = config_setting_get_int(s);

	if (config_setting_type(s) != CONFIG_TYPE_INT || code < 0 || code > 255) {
		complain(c, s, "expected whole numbers, 0 to 255", name);
	} else if (c->given[code]) {
		complain(c, s, "a code can stand only once in exit_codes", name);
	} else {
		c->given[code] = true;
		c->map[code] = outcome;
	}
}

static void read_list(struct codes *c, const config_setting_t *list)
{
	const char *name = config_setting_name(list);
	size_t i = 0;

	while (i < nitems(outcomes) && strcmp(outcomes[i].name, name) != 0)
		i++;
	if (i == nitems(outcomes)) {
		complain(c, list, "expected done, retry, escape or fail", name);
	} else if (!config_setting_is_array(list) && !config_setting_is_list(list)) {
		complain(c, list, "expected a list of whole numbers such as [75, 111]", name);
	} else {
		for (int k = 0; k < config_setting_length(list); k++)
			read_code(c, config_setting_get_elem(list, (unsigned)k), name, outcomes[i].outcome);
	}
}

int conf_codes_read(struct conf_loading *l, const struct conf_source *s, const struct config_setting_t *group,
    enum conf_outcome codes[256])
{
	struct codes c = { .l = l, .source = s, .map = codes };

	conf_codes_default(codes);
	for (int i = 0; i < config_setting_length(group); i++)
		read_list(&c, config_setting_get_elem(group, (unsigned)i));
	return c.bad ? -1 : 0;
}
