/*
 * What all models share. Bounds are read at the start, so that one program is enough: QUREDIS_MODEL="crashes=2 cuts=1 ..."
 */
c_code {
	static unsigned char of_environment(const char *name, int otherwise)
	{
		const char *all = getenv("QUREDIS_MODEL"), *p = all;
		size_t len = strlen(name);

		for (; p != NULL && (p = strstr(p, name)) != NULL; p++)
			if ((p == all || p[-1] == ' ') && p[len] == '=')
				return (unsigned char)atoi(p + len + 1);
		return (unsigned char)otherwise;
	}
};

#define MUTANT(which) (bound.mutant == which)

/* what: a name of the first mtype of the model. Arguments of an inline have 512 characters at most. */
inline must(condition, what)
{
	if
	:: !(condition) -> assert(what == 0)	/* run gives the number its name again */
	:: else
	fi
}
