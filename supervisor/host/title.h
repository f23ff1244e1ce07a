#ifndef SUPERVISOR_HOST_TITLE_H
#define SUPERVISOR_HOST_TITLE_H

/* Call it once, before anything else reads argv or the environment: it moves both away to make room for titles. */
void title_init(int argc, char *argv[], char *envp[]);

/* Sets the title to "quredisd: <text>". */
void title_set(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
