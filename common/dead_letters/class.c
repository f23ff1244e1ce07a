/*
 * The classes of dead letters. worker/verdict.c and settle.c choose the class of a message that failed; the sweeper
 * chooses that of a message that waited too long or lost its worker.
 */
#include <string.h>

#include "common/dead_letters/class.h"

const struct dead_letter_class dead_letter_classes[DEAD_LETTER_CLASSES] = {
	{ "Cancelled", COUNT_CANCELLED },
	{ "DeadlineExceeded", COUNT_DEADLINE_EXCEEDED },
	{ "EmitRefused", -1 },
	{ "HandlerExit", COUNT_HANDLER_EXIT },
	{ "HandlerFail", COUNT_HANDLER_FAIL },
	{ "HandlerSignal", COUNT_HANDLER_SIGNAL },
	{ "HandlerTimeout", COUNT_HANDLER_TIMEOUT },
	{ "Purged", -1 },	/* COUNT_PURGED also counts DeadlineExceeded */
	{ "Rejected", COUNT_REJECTED },
	{ "TTLExpired", COUNT_EXPIRED },
	{ "TooLarge", COUNT_TOO_LARGE },
	{ "Undeliverable", -1 },
	{ "UnknownSeal", COUNT_UNKNOWN_SEAL },
	{ "UnknownVersion", COUNT_UNKNOWN_VERSION },
	{ "Unrecorded", -1 },
	{ "Unrepresentable", COUNT_UNREPRESENTABLE },
	{ "WorkerLost", COUNT_WORKER_LOST },
};

static const struct dead_letter_class *find_class(const char *name)
{
	for (size_t i = 0; i < DEAD_LETTER_CLASSES; i++)
		if (strcmp(dead_letter_classes[i].name, name) == 0)
			return &dead_letter_classes[i];
	return NULL;
}

bool dead_letters_class_is_own(const char *name)
{
	return find_class(name) != NULL;
}

int dead_letter_class_counter(const char *name)
{
	const struct dead_letter_class *class = find_class(name);

	return class == NULL ? -1 : class->counter;
}
