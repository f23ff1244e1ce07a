#ifndef ADMIN_OPERATIONS_OPERATIONS_H
#define ADMIN_OPERATIONS_OPERATIONS_H

/*
 * Long work on the dead letters of a queue: those that a filter means, or at a pace. Its parts do not know who runs it.
 *	work			does one piece of it, and reports
 *	execute			the same in a process of the leading sweeper
 *	operation		what Redis remembers of it, so that another process continues it
 *	states			what goes on with one that is not complete
 *	selection		takes the dead letters out of a list in which most may stay
 *	paced, redriven		--canary --rate: how many messages fail again
 *	failures		why they do: whether the cause is the same as before
 */
#include "admin/operations/execute.h"
#include "admin/operations/failures.h"
#include "admin/operations/operation.h"
#include "admin/operations/paced.h"
#include "admin/operations/redriven.h"
#include "admin/operations/selection.h"
#include "admin/operations/states.h"
#include "admin/operations/work.h"

#endif
