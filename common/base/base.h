#ifndef COMMON_BASE_BASE_H
#define COMMON_BASE_BASE_H

/* Functions for all programs: memory, text, time, processes, files. */
#include "common/base/address.h"
#include "common/base/alloc.h"
#include "common/base/buffer.h"
#include "common/base/cgroup.h"
#include "common/base/clock.h"
#include "common/base/deprecated.h"
#include "common/base/encode.h"
#include "common/base/hash.h"
#include "common/base/identifier.h"
#include "common/base/leftovers.h"
#include "common/base/limits.h"
#include "common/base/nearest.h"
#include "common/base/nitems.h"
#include "common/base/privileges.h"
#include "common/base/process.h"
#include "common/base/put.h"
#include "common/base/file.h"
#include "common/base/units.h"
#include "common/base/unix_socket.h"

#endif
