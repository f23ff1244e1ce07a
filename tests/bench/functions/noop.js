// The function that does nothing, and the handler for exec mode that calls it.
exports.handle = (message) => {};
if (require.main === module) exports.handle(require("fs").readFileSync(0));
