#ifndef COMMON_REDIS_REPLY_H
#define COMMON_REDIS_REPLY_H

struct redis_reply;
struct redisReply;

/* The view that other files have of a reply; valid as long as the reply is. */
struct redis_reply redis_reply_view(const struct redisReply *reply);

#endif
