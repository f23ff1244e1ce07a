#!/usr/bin/node
// A persistent handler: appends every message to the file that is its first argument. See quredis-handler(7).
const fs = require("fs"), file = fs.openSync(process.argv[2], "a");
let rest = Buffer.alloc(0);
process.stdin.on("data", (chunk) => {
  let at = 0, answers = "", data = rest.length ? Buffer.concat([rest, chunk]) : chunk;
  for (let end, next; (end = data.indexOf(10, at)) >= 0; at = next) {   // JOB serial attempt bytes [key=value ...]
    const [, serial, , size] = data.latin1Slice(at, end).split(" ");
    if ((next = end + 1 + Number(size) + 1) > data.length) break;       // not all of the message and its newline yet
    fs.appendFileSync(file, data.subarray(end + 1, next - 1));
    answers += Number(size) ? `OK ${serial}\n` : `REJECT ${serial} it is empty\n`;
  }
  rest = data.subarray(at);
  process.stdout.write(answers);
});
