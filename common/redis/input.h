#ifndef COMMON_REDIS_INPUT_H
#define COMMON_REDIS_INPUT_H

#include <stdbool.h>

struct redisContext;
struct redisReader;
struct redisReply;
struct tls;

/*
 * Reads what has arrived into the reader of c, without waiting, through tls if it is not NULL. From a plain connection
 * it takes at most 16 KiB, or about 1 MiB if `large` allows it, 8 KiB of an unfinished answer are there, and the next
 * 16 KiB were there at once. Short answers are not read so: a batch of 128 of 1 KiB cost the worker 4.2 us of CPU each,
 * 3.3 in pieces (make bench-compare). 0, or -1: the error is in c->err, c->reader->err or tls.
 */
int redis_input_read(struct redisContext *c, struct tls *tls, bool large);
/* Of a new connection: bounds the arrays that its reader takes, and lets it use the memory of freed replies. */
void redis_input_prepare(struct redisReader *reader);
void redis_input_free(struct redisReply *reply);	/* in place of freeReplyObject() */

#endif
