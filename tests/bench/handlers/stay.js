#!/usr/bin/node
// A persistent handler that does nothing: all jobs of one read are answered in one write.
let rest = Buffer.alloc(0);
process.stdin.on("data", (chunk) => {
  let at = 0, answers = "";
  const data = rest.length ? Buffer.concat([rest, chunk]) : chunk;
  for (let end, next; (end = data.indexOf(10, at)) >= 0; at = next) {   // JOB serial attempt bytes [key=value ...]
    const [, serial, , size] = data.latin1Slice(at, end).split(" ", 4);
    if ((next = end + 2 + Number(size)) > data.length) break;
    data.subarray(end + 1, next - 1);
    answers += `OK ${serial}\n`;
  }
  rest = data.subarray(at);
  if (answers) process.stdout.write(answers);
});
