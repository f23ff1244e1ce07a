#ifndef SUPERVISOR_TITLE_H
#define SUPERVISOR_TITLE_H

/* Once, before anything else reads argv or the environment: both are moved away to make room. */
void title_init(int argc, char *argv[], char *envp[]);

/* What ps shows: "quredisd: <text>". */
void title_set(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
