#ifndef COMMON_REDIS_INPUT_H
#define COMMON_REDIS_INPUT_H

#include <stdbool.h>

struct redisContext;
struct redisReader;
struct tls;

/*
 * Reads what has arrived into the reader of c, without waiting, through tls if it is not NULL. From a plain connection
 * it takes at most 16 KiB, or about 1 MiB if `large` allows it and the first 16 KiB were there at once. 0, or -1: the
 * error is in c->err, c->reader->err or tls.
 */
int redis_input_read(struct redisContext *c, struct tls *tls, bool large);
/* Bounds the arrays that the reader of a new connection takes. */
void redis_input_bound(struct redisReader *reader);

#endif
