#ifndef SWEEPER_RESCUE_SEARCH_H
#define SWEEPER_RESCUE_SEARCH_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/base.h"
#include "common/board/board.h"

/*
 * One round of a search for what handlers of dead boots left: kills what it finds, and waits a second for its end.
 * Where the sweeper has root's rights, or never had them, it searches itself. Otherwise the process at the other end of
 * child->search_fd does (search_serve()). boots, and the results, are arrays of n. If that process is gone, nobody can
 * tell what is left: the sweeper ends, and the master starts both again.
 */
void search_groups(const struct child *child, const uint64_t *boots, struct cgroup_dead *groups, size_t n);
_Noreturn void search_serve(const struct child *child, int fd);	/* until the sweeper closes the other end */

void search_processes(const struct child *child, const uint64_t *boots, struct leftovers *found, size_t n);

#endif
