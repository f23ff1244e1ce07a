#ifndef COMMON_QUEUE_QUEUE_H
#define COMMON_QUEUE_QUEUE_H

/* A queue in Redis: its keys, and all operations on them. */
#include "common/queue/admin.h"
#include "common/queue/cancels.h"
#include "common/queue/dead.h"
#include "common/queue/failed.h"
#include "common/queue/gauge.h"
#include "common/queue/health.h"
#include "common/queue/history.h"
#include "common/queue/hold.h"
#include "common/queue/look.h"
#include "common/queue/moves.h"
#include "common/queue/nodes.h"
#include "common/queue/notes.h"
#include "common/queue/operations.h"
#include "common/queue/purge.h"
#include "common/queue/records.h"
#include "common/queue/refused.h"
#include "common/queue/rehearsal.h"
#include "common/queue/scripts.h"
#include "common/queue/schedules.h"
#include "common/queue/stats.h"
#include "common/queue/survey.h"
#include "common/queue/seats.h"
#include "common/queue/throttle.h"
#include "common/queue/types.h"
#include "common/queue/waiting.h"
#include "common/queue/watch.h"

#endif
