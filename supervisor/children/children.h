#ifndef SUPERVISOR_CHILDREN_CHILDREN_H
#define SUPERVISOR_CHILDREN_CHILDREN_H

/*
 * The master's children, whatever queue they serve:
 *	processes	the table of children, and every action of the master on a child
 *	spawner		forks them
 *	policy		when the master replaces a dead child
 *	watch		kills children that hang
 *	orphans		kills processes that dead children left running
 *	deaths		reports dead workers to the sweeper
 *	keeper		the child that runs an embedded Redis
 *	rights		what each of them keeps of root's rights
 */
#include "supervisor/children/deaths.h"
#include "supervisor/children/keeper.h"
#include "supervisor/children/orphans.h"
#include "supervisor/children/policy.h"
#include "supervisor/children/processes.h"
#include "supervisor/children/spawner.h"
#include "supervisor/children/watch.h"

#endif
