#ifndef ADMIN_DOCTOR_DOCTOR_H
#define ADMIN_DOCTOR_DOCTOR_H

#include "admin/cli/cli.h"

/* Checks of everything that quredis depends on, and safe repairs. The other header of this folder is its own. */
int cmd_doctor(struct admin *a);

#endif
