/* Writes and reads the pairs of a wrapper that say which message this one descends from. */
#include <string.h>

#include <bsd/string.h>

#include "common/message/lineage.h"

#include "common/base/base.h"
#include "common/message/line.h"

void message_lineage_append(struct buffer *out, const struct message_lineage *l)
{
	if (l->depth <= 0)
		return;
	buffer_format(out, " root=%s depth=%d", l->root, l->depth);
	if (l->traceparent[0] != '\0')
		buffer_format(out, " traceparent=%s", l->traceparent);
}

void message_lineage_parse(struct message_lineage *l, const struct message_line *line)
{
	const char *root = message_line_value(line, "root");
	int64_t depth = 0;

	*l = (struct message_lineage){0};
	if (root == NULL || !identifier_is(IDENTIFIER_ID, root, strlen(root)) ||
	    message_line_number(line, "depth", MESSAGE_DEPTH_MAX, &depth) == -1 || depth == 0)
		return;
	l->depth = (int)depth;
	strlcpy(l->root, root, sizeof(l->root));
	message_traceparent_parse(l->traceparent, line, "traceparent");
}

void message_lineage_read(struct message_lineage *l, const char *root, const char *depth, const char *traceparent)
{
	struct message_line line;
	struct buffer pairs = {0};

	*l = (struct message_lineage){0};
	if (root[0] == '\0' || depth[0] == '\0')
		return;
	buffer_format(&pairs, "root=%s depth=%s", root, depth);
	if (traceparent[0] != '\0')
		buffer_format(&pairs, " traceparent=%s", traceparent);
	if (message_line_parse_pairs(&line, pairs.data, pairs.len) == 0)
		message_lineage_parse(l, &line);
	buffer_free(&pairs);
}
