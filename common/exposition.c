/* How a sample is written for Prometheus. What there is to say is others'. */
#include <inttypes.h>
#include <string.h>

#include "common/exposition.h"

static void append(struct buffer *b, const char *s)
{
	buffer_append(b, s, strlen(s));
}

void exposition_metric(struct buffer *b, const char *name, const char *type, const char *help)
{
	buffer_format(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void append_value(struct buffer *b, const char *value)
{
	for (const char *c = value; *c != '\0'; c++)
		if (*c == '\n')
			append(b, "\\n");
		else if (*c == '"' || *c == '\\')
			buffer_append(b, (const char[]){ '\\', *c }, 2);
		else
			buffer_append(b, c, 1);
}

static void append_labels(struct buffer *b, const char *name, const char *const *labels)
{
	append(b, name);
	for (size_t i = 0; labels != NULL && labels[i] != NULL; i += 2) {
		append(b, i == 0 ? "{" : ",");
		append(b, labels[i]);
		append(b, "=\"");
		append_value(b, labels[i + 1]);
		append(b, "\"");
	}
	append(b, labels != NULL && labels[0] != NULL ? "} " : " ");
}

void exposition_count(struct buffer *b, const char *name, const char *const *labels, int64_t value)
{
	append_labels(b, name, labels);
	buffer_format(b, "%" PRId64 "\n", value);
}

void exposition_seconds(struct buffer *b, const char *name, const char *const *labels, int64_t ms)
{
	append_labels(b, name, labels);
	buffer_format(b, "%" PRId64 ".%03d\n", ms / 1000, (int)(ms % 1000));
}
