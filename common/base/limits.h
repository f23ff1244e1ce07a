#ifndef COMMON_BASE_LIMITS_H
#define COMMON_BASE_LIMITS_H

/* Limits that the configuration checks, and that other folders use as sizes. */

/* Names of queues and nodes: they are parts of keys in Redis, of file names and of metrics. */
#define QUEUE_NAME_MAX 64
#define QUEUE_NAME_BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

/*
 * The capacity of the scoreboard: slots of processes, and queues. During a reload the processes of the old and of the
 * new configuration run side by side.
 */
#define SCOREBOARD_SLOTS 2048
/* of the configuration: each may have a successor; 16 are for sweepers and the keeper */
#define SCOREBOARD_WORKERS ((SCOREBOARD_SLOTS - 16) / 2)
#define SCOREBOARD_QUEUES 1024

#endif
