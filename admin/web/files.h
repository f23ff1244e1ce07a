#ifndef ADMIN_WEB_FILES_H
#define ADMIN_WEB_FILES_H

/* Every file of admin/web/assets: a name for the linker, and the path there. The type follows from the ending
 * (web/assets.c). */
#define WEB_FILES(X) \
	X(actions_js, "actions.js") \
	X(api_js, "api.js") \
	X(chart_css, "chart.css") \
	X(chart_js, "chart.js") \
	X(console_css, "console.css") \
	X(console_js, "console.js") \
	X(dead_letters_js, "dead_letters.js") \
	X(dialogs_js, "dialogs.js") \
	X(dom_js, "dom.js") \
	X(format_js, "format.js") \
	X(icons_js, "icons.js") \
	X(index_html, "index.html") \
	X(keys_js, "keys.js") \
	X(logo_svg, "logo.svg") \
	X(message_js, "message.js") \
	X(messages_js, "messages.js") \
	X(operations_js, "operations.js") \
	X(page_dead_letters_js, "page_dead_letters.js") \
	X(page_flight_js, "page_flight.js") \
	X(page_health_js, "page_health.js") \
	X(page_nodes_js, "page_nodes.js") \
	X(page_overview_js, "page_overview.js") \
	X(page_queue_js, "page_queue.js") \
	X(page_record_js, "page_record.js") \
	X(page_schedules_js, "page_schedules.js") \
	X(parts_css, "parts.css") \
	X(parts_js, "parts.js") \
	X(phone_css, "phone.css") \
	X(route_js, "route.js") \
	X(store_js, "store.js") \
	X(stream_js, "stream.js") \
	X(table_js, "table.js") \
	X(trend_js, "trend.js") \
	X(visible_js, "visible.js")

#endif
