#ifndef SUPERVISOR_CHILDREN_RIGHTS_H
#define SUPERVISOR_CHILDREN_RIGHTS_H

#include "common/conf/conf.h"

/*
 * In a child of a master that runs as root, with supervisor.user: gives up what this kind of child does not need, for
 * good. Without it, or if the workers of the queue need root, nothing changes. If it fails, logs that and ends the
 * process: no child runs with rights that it should not have.
 */
void rights_of_worker(const struct conf *conf, const struct conf_queue *q);
void rights_of_sweeper(const struct conf *conf);
/* keeps what it needs to find and to kill processes of any user */
void rights_of_search(const struct conf *conf);
void rights_of_keeper(const struct conf *conf);

#endif
