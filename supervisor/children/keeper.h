#ifndef SUPERVISOR_CHILDREN_KEEPER_H
#define SUPERVISOR_CHILDREN_KEEPER_H

#include <stddef.h>

struct conf;
struct scoreboard;

/* Creates redis.dir (0700) if it is missing, and checks it. -1: the reason is in error. */
int keeper_check(const struct conf *conf, char *error, size_t size);

/*
 * The keeper process, called in a child right after fork: it runs redis-server in conf->redis.dir as long as some
 * process holds the other end of life_fd. handler_pgid of its slot is the pid of redis-server. TERM tells it to call
 * log_follow().
 */
_Noreturn void keeper_run(const struct conf *conf, struct scoreboard *board, int slot, int life_fd);

#endif
