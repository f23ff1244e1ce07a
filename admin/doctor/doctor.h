#ifndef ADMIN_DOCTOR_DOCTOR_H
#define ADMIN_DOCTOR_DOCTOR_H

#include "admin/cli/cli.h"

/* Checks of everything that quredis depends on, and safe repairs. Only this folder includes its other header. */
int cmd_doctor(struct admin *a);

#endif
