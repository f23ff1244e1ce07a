#ifndef SUPERVISOR_CHILDREN_KEEPER_H
#define SUPERVISOR_CHILDREN_KEEPER_H

#include <stddef.h>

struct conf;
struct scoreboard;

/* Makes redis.dir (0700) where it is missing and checks it. Returns -1 and why in error. */
int keeper_check(const struct conf *conf, char *error, size_t size);

/*
 * The keeper process: redis-server runs in conf->redis.dir as long as somebody holds the other end of life_fd.
 * Its slot's handler_pgid is redis-server's pid. TERM makes it look at log_epoch. In a just-forked child.
 */
_Noreturn void keeper_run(const struct conf *conf, struct scoreboard *board, int slot, int life_fd);

#endif
