// No-op jobs of BullMQ: node bullmq.cjs MODULES SOCKET_OR_HOST:PORT add COUNT | work CONCURRENCY
const path = require('path')
const [modules, where, what, count] = process.argv.slice(2)
const { Queue, Worker } = require(path.join(modules, 'bullmq'))
const [host, port] = where.split(':')
const connection = {
  ...(where.startsWith('/') ? { path: where } : { host, port: Number(port) }),
  password: process.env.BENCH_PASSWORD || undefined,
  maxRetriesPerRequest: null,
}

async function main() {
  if (what === 'work') {
    new Worker('bench', async () => {}, { connection, concurrency: Number(count) })
    return
  }
  const queue = new Queue('bench', { connection })
  for (let left = Number(count); left > 0; left -= 1000) {
    await queue.addBulk(Array.from({ length: Math.min(left, 1000) }, () => ({ name: 'job', data: {} })))
  }
  await queue.close()
}

main()
