#ifndef SUPERVISOR_HOST_HOST_H
#define SUPERVISOR_HOST_HOST_H

/*
 * The files and interfaces of the host that the master uses. No file here knows of children or queues:
 *	lock, lock_text	the lock file: one master for each, and the key by which it finds leftover handlers
 *	pid_file	the file of --pid-file, locked in the same way
 *	control		the control socket
 *	notify		sd_notify(3)
 *	signals		signals are blocked, and read from a descriptor
 *	title		the text that ps shows
 */
#include "supervisor/host/control.h"
#include "supervisor/host/lock.h"
#include "supervisor/host/lock_text.h"
#include "supervisor/host/notify.h"
#include "supervisor/host/pid_file.h"
#include "supervisor/host/signals.h"
#include "supervisor/host/title.h"

#endif
