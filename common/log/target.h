#ifndef COMMON_LOG_TARGET_H
#define COMMON_LOG_TARGET_H

/* Opens a file to append to it. -1: errno; log_open_error() tells why. */
int log_target_open(const char *path);
/* Moves fd above 2: code that closes or redirects 0 to 2 must not hit the log. -1: errno */
int log_target_above_standard(int fd);

#endif
