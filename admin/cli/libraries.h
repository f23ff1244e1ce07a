#ifndef ADMIN_CLI_LIBRARIES_H
#define ADMIN_CLI_LIBRARIES_H

#include "common/redis/redis.h"

/* The libraries of this program that read bytes from the network, one by one; NULL: there is no further one. */
const struct library *libraries_at(size_t i);

#endif
