/** A driver without an engine, which does what the prompt's first token says. */
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';

const send = (message) => writeSync(3, `${JSON.stringify(message)}\n`);

console.log('loading');
if (process.argv[2] === 'fails') {
  console.error('no such model');
  process.exit(3);
}
send({ kind: 'ready', description: 'stub' });
for await (const line of createInterface({ input: process.stdin })) {
  const { prompts, newTokens } = JSON.parse(line);
  if (prompts[0][0] === 13) process.exit(1);
  if (prompts[0][0] === 12) send({ kind: 'error', message: 'out of memory' });
  else {
    if (prompts[0][0] === 11) for (const end = performance.now() + 400; performance.now() < end; );
    const tokens = prompts.map((prompt) => Array.from({ length: newTokens }, () => prompt[0]));
    send({ kind: 'result', tokens, times: tokens.map((row) => row.map((_, i) => i + 1)) });
  }
}
