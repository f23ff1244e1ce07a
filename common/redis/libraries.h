#ifndef COMMON_REDIS_LIBRARIES_H
#define COMMON_REDIS_LIBRARIES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The libraries that read bytes from the network: those of both programs. The console's is in admin/cli/libraries.c.
 * Each version is that of upstream, so a distribution may have corrected an older one: "too old" is a hint, not a
 * proof.
 */
struct library {
	const char *name;
	/* of the library that is loaded; of hiredis, which does not report it, that of its headers */
	const char *(*version)(void);
	const char *least;		/* earlier ones have known holes in what quredis uses of them */
};

extern const struct library libraries[];
extern const size_t libraries_count;

bool libraries_older(const char *version, const char *least);	/* "3.0.9" is older than "3.0.22" */

#endif
