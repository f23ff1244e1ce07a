/* The libraries of both programs, and libevent, which reads the HTTP of the console. The daemon does not link it. */
#include <event2/event.h>

#include "admin/cli/libraries.h"

static const struct library libevent = { "libevent", event_get_version, "2.1.12" };

const struct library *libraries_at(size_t i)
{
	return i < libraries_count ? &libraries[i] : i == libraries_count ? &libevent : NULL;
}
