#ifndef COMMON_HANDLER_SCRIPT_H
#define COMMON_HANDLER_SCRIPT_H

#include <stdbool.h>

struct conf_script;

#define HANDLER_FILE_SIZE 256	/* the kernel reads as much of a first line */
/*
 * The file to which the error of a stage of handler_stage_names belongs: the program, the script of its command line,
 * or the interpreter in the program's first line, which it reads. NULL: the stage concerns no file, or the file cannot
 * be read. The text is of argv, or in out.
 */
const char *handler_file_of(const char *stage, char *const *argv, char out[HANDLER_FILE_SIZE]);
/*
 * The same without reading a file, as the master needs it: for the interpreter the program whose first line names it.
 * stage: enum handler_stage, or a number that is none
 */
const char *handler_stage_file(unsigned stage, char *const *argv, char out[HANDLER_FILE_SIZE]);

/* ---- for the child, between fork and exec: async-signal-safe ---- */

/* before the child gives up its rights. -1: what the program is, is not known */
int handler_script_open(const char *program);
/*
 * True (errno EACCES): the program is a script of a known interpreter, and this user may not read it. A binary need not
 * be readable. fd: of handler_script_open()
 */
bool handler_script_lacks_right(int fd, const char *program);
/* True (errno): this user may not read it, or execute it, as its interpreter has to, or it is a directory that the
 * interpreter does not know to run. */
bool handler_script_is_unusable(const struct conf_script *script);

#endif
