/* When the certificates of TLS end. A connection that is open stays so after that day, so nothing fails before the next
 * one is opened. */
#include <inttypes.h>
#include <stdio.h>

#include "admin/doctor/checks.h"

#include "common/base/base.h"
#include "common/redis/redis.h"

#define DAY_S 86400
#define WARN_DAYS 30

static void judge(struct doctor *d, const char *where, const char *whose, const struct tls_expiry *e,
    const char *advice)
{
	int64_t left_s = e->at_s - clock_realtime_ms() / 1000, days = left_s / DAY_S;
	char date[CLOCK_RFC3339_SIZE];

	clock_rfc3339(e->at_s * 1000, date);
	if (left_s <= 0)
		findings_advise(findings_add(d, SEVERITY_ERROR, where, "%s (%s) has expired on %.10s", whose,
		    e->subject, date), "%s", advice);
	else if (left_s < WARN_DAYS * (int64_t)DAY_S)
		findings_advise(findings_add(d, SEVERITY_WARNING, where,
		    "%s (%s) expires on %.10s, in %" PRId64 " day%s", whose, e->subject, date, days,
		    days == 1 ? "" : "s"), "%s", advice);
	else
		findings_add(d, SEVERITY_OK, where, "%s is valid until %.10s", whose, date);
}

void certificates_judge_server(struct doctor *d, const char *where, const struct redis *r)
{
	struct tls_expiry e;

	if (redis_certificate_expiry(r, &e))
		judge(d, where, "the server's certificate, or a CA of it,", &e,
		    "renew it, or the CA that it names, on the server; Redis takes another file with CONFIG SET "
		    "tls-cert-file, quredis needs no restart");
}

int check_certificates(struct doctor *d)
{
	const struct admin *a = d->a;
	const struct tls_context *context = a->conf == NULL ? NULL : a->conf->redis.tls;
	struct tls_expiry e;

	if (a->target.shown == NULL || (!a->target.tls && !a->target.sentinel_tls)) {
		findings_add(d, SEVERITY_OK, NULL, "TLS is not used");
		return 0;
	}
	if (d->server.connected)
		certificates_judge_server(d, a->target.shown, &a->redis);
	if (context != NULL && tls_context_expiry(context, &e))
		judge(d, "redis.cert_file", "the client's certificate", &e, "renew it, then quredis reload");
	return 0;
}
