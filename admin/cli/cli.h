#ifndef ADMIN_CLI_CLI_H
#define ADMIN_CLI_CLI_H

/*
 * The parts that all commands of quredis share. Read admin.h first, then command.h.
 *	admin		configuration, replies, errors
 *	lookup		queues by name
 *	command		a command and its table
 *	options		the command line
 *	control		the socket of the supervisor here
 *	confirm		questions to the operator
 *	interrupt	INT and TERM during long work
 *	output		tables and JSON, one row at a time
 *	outcome		the last line: how many messages
 *	progress	how far long work is
 *	visible		text of strangers, made safe for a terminal
 *	moment		times as options
 *	colour		colours by meaning
 *	notice		notices, errors and suggestions
 *	wrap		lines that are broken at words
 *	connection	which Redis, and the options that choose it
 */
#include "admin/cli/admin.h"
#include "admin/cli/colour.h"
#include "admin/cli/command.h"
#include "admin/cli/confirm.h"
#include "admin/cli/connection.h"
#include "admin/cli/contains.h"
#include "admin/cli/control.h"
#include "admin/cli/interrupt.h"
#include "admin/cli/libraries.h"
#include "admin/cli/lookup.h"
#include "admin/cli/moment.h"
#include "admin/cli/notice.h"
#include "admin/cli/options.h"
#include "admin/cli/outcome.h"
#include "admin/cli/output.h"
#include "admin/cli/progress.h"
#include "admin/cli/visible.h"
#include "admin/cli/wrap.h"

#endif
