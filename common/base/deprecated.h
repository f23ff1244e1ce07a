#ifndef COMMON_BASE_DEPRECATED_H
#define COMMON_BASE_DEPRECATED_H

/*
 * Names that a later version removes, and the only list of them. Each warns where it is used, for at least one release:
 *	KEY	a key of the configuration, as in quredis.conf(5): "purge.interval", "queue.ttl" for one of a queue.
 *		Each file and line that sets it causes a warning.
 *	OPTION	"quredis --json" or "quredisd --pid-file". It prints a warning when it is given.
 *	METRIC	its help text says so.
 * A row has the name, what replaces it, and the version that removes it:
 *	X(KEY, "queue.window", "queue.batch.max", "2.0.0")
 * tests/package/test_deprecated.py fails if a row names nothing that exists, or if its version is reached. A test
 * compiles deprecated.c with rows of its own.
 */
#ifndef DEPRECATED_TABLE
#define DEPRECATED_TABLE(X)
#endif

enum deprecated_kind { DEPRECATED_KEY, DEPRECATED_OPTION, DEPRECATED_METRIC };

struct deprecated {
	enum deprecated_kind kind;
	const char *name, *instead, *removed_in;
};

/* NULL: the name stays. The name of the row is `of` and name together: "queue." and "ttl", "quredis --" and "json". */
const struct deprecated *deprecated_find(enum deprecated_kind kind, const char *of, const char *name);

/* "deprecated: version 2.0.0 removes it; use queue.batch.max", a new string. */
char *deprecated_advice(const struct deprecated *d);

#endif
