#ifndef COMMON_REDIS_GREETING_H
#define COMMON_REDIS_GREETING_H

struct redis;
struct redisReply;

/* Appends the commands of an opening: to a Sentinel if the route asks one, otherwise to Redis. */
void greeting_append(struct redis *r);
/* Takes the answer to the next of them. 1: another node of the Cluster is to be asked, see route_follow(). -1: the
 * connection is closed, error set. */
int greeting_take(struct redis *r, const struct redisReply *reply);

#endif
