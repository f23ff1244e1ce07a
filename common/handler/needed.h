#ifndef COMMON_HANDLER_NEEDED_H
#define COMMON_HANDLER_NEEDED_H

/*
 * The element of argv with the file that its program, an interpreter, runs: "/opt/mail.py" of "/usr/bin/python3 -u
 * /opt/mail.py --fast". NULL: the program is no interpreter that is known, or which of its arguments is its script
 * cannot be told ("sh -c …"). argv: at least one element, NULL at the end.
 */
const char *handler_script(char *const *argv);

#endif
