/* quredis completion: prints the script with which a shell completes the words of this program. */
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "admin/commands/commands.h"
#include "admin/commands/complete.h"

#include "common/base/base.h"

static const char bash[] =
    "_quredis()\n"
    "{\n"
    "	local lines\n"
    "	mapfile -t lines < <(quredis completion words -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
    "	if [[ ${lines[0]} == :files ]]; then\n"
    "		compopt -o filenames 2>/dev/null\n"
    "		mapfile -t COMPREPLY < <(compgen -f -- \"${COMP_WORDS[COMP_CWORD]}\")\n"
    "	else\n"
    "		COMPREPLY=(\"${lines[@]%%$'\\t'*}\")\n"
    "	fi\n"
    "}\n"
    "complete -F _quredis quredis\n";

static const char fish[] =
    "complete -c quredis -f -a '(quredis completion words -- (commandline -opc)[2..-1] (commandline -ct) "
    "2>/dev/null)'\ncomplete -c quredis -s c -l config -r -F\n";

static const char zsh[] =
    "#compdef quredis\n"
    "_quredis()\n"
    "{\n"
    "	local -a lines\n"
    "	lines=(\"${(@f)$(quredis completion words -- \"${(@)words[2,CURRENT]}\" 2>/dev/null)}\")\n"
    "	if [[ $lines[1] == :files ]]; then\n"
    "		_files\n"
    "	else\n"
    "		lines=(\"${(@)${(@)lines//:/\\\\:}/$'\\t'/:}\")\n"
    "		_describe quredis lines\n"
    "	fi\n"
    "}\n"
    "if [[ $funcstack[1] == _quredis ]]; then\n"
    "	_quredis\n"
    "else\n"
    "	compdef _quredis quredis\n"
    "fi\n";

static const struct { const char *shell, *script; } scripts[] = { { "bash", bash }, { "fish", fish }, { "zsh", zsh } };

int cmd_completion(struct admin *a)
{
	if (strcmp(a->operands[0], "words") == 0) {
		complete_words(a->commands, a->operands + 1, a->noperands - 1);
		return 0;
	}
	for (size_t i = 0; i < nitems(scripts) && a->noperands == 1; i++) {
		if (strcmp(a->operands[0], scripts[i].shell) == 0) {
			fputs(scripts[i].script, stdout);
			return 0;
		}
	}
	return admin_fail(a, EX_USAGE, "expected bash, fish or zsh");
}
