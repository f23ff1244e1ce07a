#ifndef SUPERVISOR_CHILDREN_CHILDREN_H
#define SUPERVISOR_CHILDREN_CHILDREN_H

/*
 * The master's children, whatever queue they serve:
 *	processes	the table of them, and all that the master does to one
 *	spawner		forks them
 *	policy		when a child that died is replaced
 *	watch		kills those that hang
 *	orphans		kills what dead ones left running
 *	deaths		reports dead workers to the sweeper
 *	keeper		the child that runs an embedded Redis
 */
#include "supervisor/children/deaths.h"
#include "supervisor/children/keeper.h"
#include "supervisor/children/orphans.h"
#include "supervisor/children/policy.h"
#include "supervisor/children/processes.h"
#include "supervisor/children/spawner.h"
#include "supervisor/children/watch.h"

#endif
