#ifndef COMMON_BASE_NITEMS_H
#define COMMON_BASE_NITEMS_H

/* Elements of an array; the BSDs have it in <sys/param.h>. */
#ifndef nitems
#define nitems(array) (sizeof(array) / sizeof((array)[0]))
#endif

#endif
