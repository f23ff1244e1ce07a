#ifndef COMMON_QUEUE_REFUSED_H
#define COMMON_QUEUE_REFUSED_H

#include <stdbool.h>

#include "common/redis/redis.h"

/*
 * Which command an error of Redis refuses, and what to do. Redis 7.0 names no command when it refuses one inside a
 * script, but the script and its line: if quredis calls one command in that line, it is that one. Hosted services and
 * access lists cause these errors.
 */
/* UNNAMED: the text refuses none, or it does not show which */
enum command_name queue_refused_command(const char *text);
/* The right to a key is missing: that names no command, and another command would not help. */
bool queue_refuses_key(const char *text);

#define QUEUE_ADVICE_SIZE 256
/* NULL: it refuses no command, or does not show which */
const char *queue_refusal_advice(const char *text, char room[QUEUE_ADVICE_SIZE]);

/* True: it refuses a command to fetch, for which queue_owner_use_blmove() uses another one. */
bool queue_fetch_has_substitute(const char *text);

#endif
