/**
 * Stands in for the engine's worker: speaks its protocol, generates 10, 11, 12, ... one token a message, and misbehaves as
 * `workerData.model` says. It keeps the commands it got and echoes them in `progress` messages when asked to.
 */
import { parentPort, workerData } from 'node:worker_threads';

const mode = workerData.model;
const running = new Map();
const stats = { steps: 0, running: 0, waiting: 0 };

const send = (message) => parentPort.postMessage(message);
const finishOf = (request, sent) => (sent === request.maxTokens ? { finish: 'length' } : {});

function step() {
  const outputs = [];
  for (const [id, entry] of running) {
    entry.sent++;
    for (let choice = 0; choice < entry.request.choices; choice++) {
      if (mode === 'fault' && entry.sent === 2 && choice === 0) {
        const error = { code: 'step_failed', message: 'this choice failed' };
        outputs.push({ request: id, choice, tokens: [], finish: 'error', error });
      } else {
        outputs.push({ request: id, choice, tokens: [9 + entry.sent], ...finishOf(entry.request, entry.sent) });
      }
    }
    if (entry.sent === entry.request.maxTokens) running.delete(id);
  }
  stats.steps++;
  send({
    kind: 'step',
    outputs,
    stats: { ...stats, time: (performance.timeOrigin + performance.now()) / 1000, running: running.size },
  });
  if (mode === 'hanging' && stats.steps === 3) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500);
  if (mode === 'crash' && stats.steps === 3) throw new Error('out of luck');
  if (mode === 'exit' && stats.steps === 3) process.exit(7);
}

parentPort.on('message', ({ commands }) => {
  send({ kind: 'progress', phase: commands.map(({ kind }) => kind).join(), fraction: 1 });
  for (const command of commands) {
    if (command.kind === 'generate') running.set(command.request.id, { request: command.request, sent: 0 });
    if (command.kind === 'abort') running.delete(command.request);
    if (command.kind === 'shutdown' && mode !== 'deaf') {
      clearInterval(timer);
      parentPort.close();
    }
  }
});

const timer = setInterval(() => {
  if (running.size > 0) step();
}, 2);

if (mode === 'unloadable' || mode === 'broken') {
  send({ kind: 'failed', message: `${mode}.gguf: no such file`, user: mode === 'unloadable' });
  clearInterval(timer);
  parentPort.close();
} else if (mode !== 'slow') {
  send({ kind: 'progress', phase: 'weights', fraction: 0.5 });
  send({ kind: 'ready', info: { device: 'cpu', vocabSize: 100, maxModelLen: 50 } });
}
