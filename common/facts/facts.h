#ifndef COMMON_FACTS_FACTS_H
#define COMMON_FACTS_FACTS_H

/* Each figure that quredis shows is one row of a table: its name in every document, its metric, its meaning. */
#include "common/facts/counters.h"
#include "common/facts/exposition.h"

#endif
