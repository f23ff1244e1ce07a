// The same as functions.py.
const { execSync, spawn } = require("child_process");
const { createHash } = require("crypto");
const fs = require("fs");

function breakDown(message) {
  const kept = [];
  while (message === "allocate") kept.push(Buffer.alloc(8 << 20, "x"));
  const cell = new Int32Array(new SharedArrayBuffer(4));
  while (message === "hang") Atomics.wait(cell, 0, 0, 50);
  if (message === "hang in C") Atomics.wait(cell, 0, 0);
  if (message === "segv") process.kill(process.pid, "SIGSEGV");
  if (message === "quick") process.reallyExit(0);
}

function note(message) {
  if (message.startsWith("good")) fs.appendFileSync(process.env.LEDGER, `${message}\n`);
}

function speak(message) {
  if (message === "print") {
    console.log("OK 7");
    fs.writeSync(1, "OK 8\n");
    execSync("echo OK 9", { stdio: "inherit" });
  }
  if (message === "daemon") spawn("setsid", ["sleep", "77"], { detached: true, stdio: "ignore" }).unref();
  if (message === "cat") execSync("cat; test ! -e /proc/self/fd/3 || echo inherited", { stdio: "inherit" });
}

function decide(message, job) {
  if (message === "retry") job.retry({ after: 0.25, reason: "later\nnow", errorClass: "SMTP" });
  if (message === "negative") job.retry({ after: -1 });
  if (message === "hold") job.hold({ after: 0.25, reason: "429\nnow" });
  if (message === "holds") job.hold();
  if (message === "below") job.hold({ after: -1 });
  if (message === "reject") job.reject("no\0thing", { errorClass: "Bad Mail" });
  if (message === "fail") job.fail("later");
  if (message === "rescue" || message === "swallow") {
    try {
      job.reject("no", { errorClass: "X" });
    } catch {
      if (message === "swallow") job.fail("a second verdict");
    }
  }
  if (message === "verbose") throw new RangeError(Array.from({ length: 300 }, (_, n) => `line ${n + 1}`).join("\n"));
  if (message === "raise") throw new RangeError("bad\nthing\0here OK 1");
}

async function wait(file, job) {
  job.beat();
  job.progress(140, "half\nway");
  while (!fs.existsSync(file)) await new Promise((done) => setTimeout(done, 10));
}

function handle(message, job) {
  const text = message.toString("latin1");
  if (text === "exit 0" || text === "exit 3") process.exit(Number(text[5]));
  if (text === "kill") process.kill(process.pid, "SIGKILL");
  breakDown(text);
  note(text);
  speak(text);
  decide(text, job);
  if (text === "job") {
    job.reject(`${job.queue} ${job.id} ${job.requestId} ${job.traceparent} ${job.schedule} ${job.scheduledAt} ` +
      `${job.attempt} ${job.maxAttempts} ${job.redelivered} ${job.deadline.toFixed(3)} ` +
      process.env.QUREDIS_REPLY_FD);
  }
  if (text.startsWith("count")) job.reject(`${message.length} ${createHash("sha1").update(message).digest("hex")} ${job.id}`);
  if (text.startsWith("wait")) return wait(text.slice(5) || "/none", job);
}

// Its first job ends after its second.
let release;
async function together(message, job) {
  if (message.toString() === "first") await new Promise((done) => { release = done; });
  else release();
  job.reject(message.toString());
}

function one(message) {
  console.log("one ran");
}

function three(message, job, other) {
}

function none() {
}

function* generate(message) {
  yield message;
}

function decoded(message, job) {
  job.reject(typeof message === "string" ? message : message.key);
}

module.exports = { handle, together, one, three, none, generate, decoded };
