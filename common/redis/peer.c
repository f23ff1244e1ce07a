/* Names the server of a connection: see peer.h. */
#include <stdio.h>
#include <string.h>

#include "common/redis/peer.h"

#include "common/redis/redis.h"
#include "common/redis/tls.h"

bool redis_certificate_expiry(const struct redis *r, struct tls_expiry *out)
{
	return r->tls != NULL && tls_expiry(r->tls, out);
}

void redis_describe_peer(const struct redis *r, char *text, size_t size)
{
	const struct redis_target *t = r->target;
	const char *host;
	int port;

	snprintf(text, size, "%.120s%s", t->shown, strlen(t->shown) > 120 ? "..." : "");
	if (t->unix_path != NULL || (t->naddresses == 1 && r->route.port == 0 && t->master == NULL))
		return;
	host = route_host(&r->route, t, &port);
	size -= strlen(text);
	text += strlen(text);
	snprintf(text, size, strchr(host, ':') != NULL ? " at %s[%.80s]:%d" : " at %s%.80s:%d", r->route.asks ? "Sentinel " : "", host, port);
}
