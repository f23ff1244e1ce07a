#ifndef COMMON_HANDLER_NEEDED_H
#define COMMON_HANDLER_NEEDED_H

#include <stdbool.h>

#include "common/handler/cause.h"

/*
 * The file of an error of HANDLER_STAGE_SCRIPT: the one that conf_find_script() finds, cut to the size of out, else the program, whose first line
 * names an interpreter. The text is of argv, or in out.
 */
const char *handler_script(char *const *argv, char out[HANDLER_FILE_SIZE]);

/* ---- for the child, between fork and exec: async-signal-safe ---- */

int handler_script_open(const char *program);	/* before the child gives up its rights. -1: what the program is, is not known */
/*
 * True (errno EACCES): the program is a script of a known interpreter, and this user may not read it. A binary need not be readable. fd: of
 * handler_script_open()
 */
bool handler_script_lacks_right(int fd, const char *program);

#endif
