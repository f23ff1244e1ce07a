#ifndef COMMON_REDIS_REPLY_H
#define COMMON_REDIS_REPLY_H

struct redis_reply;
struct redisReply;

/* What others see of it; valid as long as it is. */
struct redis_reply redis_reply_view(const struct redisReply *reply);

#endif
