// bee.js fill N: adds N jobs and ends. bee.js work
const Queue = require("bee-queue");
const redis = { path: process.env.BENCH_SOCKET, db: 1 };

async function fill(n) {
  const queue = new Queue("bench", { redis, isWorker: false, getEvents: false, sendEvents: false, storeJobs: false });
  for (let i = 0; i < n; i += 500)
    await queue.saveAll(Array.from({ length: Math.min(500, n - i) }, () => queue.createJob({ message: "x".repeat(100) })));
  await queue.close();
}

if (process.argv[2] === "fill") fill(Number(process.argv[3]));
else new Queue("bench", { redis, getEvents: false, sendEvents: false, storeJobs: false, removeOnSuccess: true }).process(50, async () => {});
