/* How values look in a file: printed so that they parse again to the same, and described in errors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf_types.h"

#include "common/alloc.h"
#include "common/buffer.h"
#include "common/duration.h"
#include "common/nitems.h"
#include "common/size.h"

static const char *const outcome_names[] = { [CONF_OUTCOME_FAIL] = "fail", [CONF_OUTCOME_DONE] = "done",
	[CONF_OUTCOME_RETRY] = "retry", [CONF_OUTCOME_ESCAPE] = "escape" };

/* Quoted. */
static void string_print(const char *s, FILE *out)
{
	putc('"', out);
	for (; *s != '\0'; s++) {
		if (*s == '"' || *s == '\\')
			fprintf(out, "\\%c", *s);
		else if (*s == '\n')
			fputs("\\n", out);
		else if ((unsigned char)*s < ' ' || *s == 0x7f)
			fprintf(out, "\\x%02x", (unsigned char)*s);
		else
			putc(*s, out);
	}
	putc('"', out);
}

static void print_strings(const char *const *list, FILE *out)
{
	putc('[', out);
	for (size_t i = 0; list[i] != NULL; i++) {
		fputs(i == 0 ? "" : ", ", out);
		string_print(list[i], out);
	}
	putc(']', out);
}

/* The shortest decimal that reads back the same; always with a point, or libconfig takes it for an integer. */
static void print_float(double n, FILE *out)
{
	char text[64];

	for (int precision = 1; precision < 18; precision++) {
		snprintf(text, sizeof(text), "%.*f", precision, n);
		if (strtod(text, NULL) <= n && strtod(text, NULL) >= n)
			break;
	}
	if (strtod(text, NULL) < n || strtod(text, NULL) > n)
		snprintf(text, sizeof(text), "%.17e", n);
	fputs(text, out);
}

/* fail lists only what would not be a failure if it were not listed. */
static void print_codes(const enum conf_outcome codes[256], FILE *out)
{
	static const enum conf_outcome order[] = { CONF_OUTCOME_DONE, CONF_OUTCOME_RETRY, CONF_OUTCOME_ESCAPE,
		CONF_OUTCOME_FAIL };
	enum conf_outcome defaults[256];

	conf_codes_default(defaults);
	fputs("{", out);
	for (size_t i = 0; i < nitems(order); i++) {
		const char *comma = "";

		fprintf(out, " %s = [", outcome_names[order[i]]);
		for (int code = 0; code < 256; code++) {
			if (codes[code] != order[i] || (order[i] == CONF_OUTCOME_FAIL && defaults[code] == order[i]))
				continue;
			fprintf(out, "%s%d", comma, code);
			comma = ", ";
		}
		fputs("];", out);
	}
	fputs(" }", out);
}

void conf_value_print(const struct conf_key *key, const void *base, FILE *out)
{
	const void *field = conf_field_const(base, key);
	char text[DURATION_SIZE > SIZE_SIZE ? DURATION_SIZE : SIZE_SIZE];

	switch (key->type) {
	case CONF_TYPE_BOOL:
		fputs(*(const bool *)field ? "true" : "false", out);
		break;
	case CONF_TYPE_INT:
		fprintf(out, "%d", *(const int *)field);
		break;
	case CONF_TYPE_COUNT:	/* libconfig wraps a large integer without the L */
		fprintf(out, *(const int64_t *)field > INT32_MAX ? "%lldL" : "%lld", (long long)*(const int64_t *)field);
		break;
	case CONF_TYPE_DURATION:
		fprintf(out, "\"%s\"", duration_format(*(const int64_t *)field, text));
		break;
	case CONF_TYPE_SIZE:
		fprintf(out, "\"%s\"", size_format(*(const int64_t *)field, text));
		break;
	case CONF_TYPE_FLOAT:
		print_float(*(const double *)field, out);
		break;
	case CONF_TYPE_STRING:
	case CONF_TYPE_PATH:
		string_print(*(const char *const *)field, out);
		break;
	case CONF_TYPE_STRINGS:
		print_strings(*(const char *const *const *)field, out);
		break;
	case CONF_TYPE_CHOICE:
		fprintf(out, "\"%s\"", key->choices[*(const int *)field]);
		break;
	case CONF_TYPE_OCTAL:
		fprintf(out, "\"%03o\"", *(const mode_t *)field);
		break;
	case CONF_TYPE_CODES:
		print_codes(field, out);
		break;
	case CONF_TYPES:
		break;
	}
}

static char *expected_choice(const struct conf_key *key)
{
	struct buffer b = {0};

	for (size_t i = 0; key->choices[i] != NULL; i++)
		buffer_format(&b, "%s\"%s\"", i == 0 ? "" : key->choices[i + 1] == NULL ? " or " : ", ", key->choices[i]);
	return b.data;
}

char *conf_value_expected(const struct conf_key *key)
{
	char least[DURATION_SIZE], most[DURATION_SIZE];

	_Static_assert(DURATION_SIZE == SIZE_SIZE, "one buffer for both");
	switch (key->type) {
	case CONF_TYPE_BOOL:
		return alloc_string("true or false");
	case CONF_TYPE_INT:
	case CONF_TYPE_COUNT:
		return alloc_format("a whole number, %lld to %lld", (long long)key->min, (long long)key->max);
	case CONF_TYPE_DURATION:
		return alloc_format("a duration in quotes such as \"30s\" (ms s m h d), %s to %s",
		    duration_format(key->min, least), duration_format(key->max, most));
	case CONF_TYPE_SIZE:
		return alloc_format("a size in quotes such as \"64K\" (K M G T), %s to %s", size_format(key->min, least),
		    size_format(key->max, most));
	case CONF_TYPE_FLOAT:
		return alloc_format("a number, %lld to %lld", (long long)key->min, (long long)key->max);
	case CONF_TYPE_STRING:
		return alloc_string("a text in quotes, not empty, without control characters");
	case CONF_TYPE_PATH:
		return alloc_string("an absolute path in quotes");
	case CONF_TYPE_STRINGS:
		return alloc_string("a list of texts such as [\"one\", \"two\"]");
	case CONF_TYPE_CHOICE:
		return expected_choice(key);
	case CONF_TYPE_OCTAL:
		return alloc_string("an octal number in quotes such as \"077\"");
	default:
		return alloc_string("a group of lists such as { done = [0]; retry = [75]; }");
	}
}
