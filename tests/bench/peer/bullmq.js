// bullmq.js fill N: adds N jobs to a paused queue, says so, and resumes it on a line of input. bullmq.js work
const { Queue, Worker } = require("bullmq");
const { handle } = require(`${process.env.BENCH_FUNCTIONS}/noop.js`);
const connection = { path: process.env.BENCH_SOCKET, db: 1, maxRetriesPerRequest: null };

async function fill(n) {
  const queue = new Queue("bench", { connection });
  await queue.pause();
  for (let i = 0; i < n; i += 500) {
    await queue.addBulk(Array.from({ length: Math.min(500, n - i) }, () => (
      { name: "noop", data: { message: "x".repeat(100) }, opts: { removeOnComplete: true } })));
  }
  process.stdout.write("filled\n");
  process.stdin.once("data", async () => { await queue.resume(); });
}

if (process.argv[2] === "fill") fill(Number(process.argv[3]));
else new Worker("bench", async (job) => handle(job.data.message), { connection, concurrency: 50 });
