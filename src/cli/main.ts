#!/usr/bin/env node
/** Entry of the `sluice` command. Errors meant for people end it with one line and exit code 1. */
import { UserError } from '../errors.js';
import { makeProgram } from './program.js';

const program = makeProgram((code) => {
  // Everything has been closed by now; handles that linger must not keep the process.
  process.exit(code);
});

// A server goes on when who read its log has gone, as in `sluice serve 2>&1 | head`.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
}

try {
  await program.parseAsync();
} catch (error) {
  const message = error instanceof UserError ? error.message : error instanceof Error ? error.stack : String(error);
  process.stderr.write(`sluice: ${message}\n`);
  process.exit(1);
}
