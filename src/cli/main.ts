#!/usr/bin/env node
/** Entry of the `sluice` command. Errors meant for people end it with one line and exit code 1. */
import { UserError } from '../errors.js';
import { makeProgram } from './program.js';

const program = makeProgram((code) => {
  // Everything has been closed by now; handles that linger must not keep the process.
  process.exit(code);
});

try {
  await program.parseAsync();
} catch (error) {
  const message = error instanceof UserError ? error.message : error instanceof Error ? error.stack : String(error);
  process.stderr.write(`sluice: ${message}\n`);
  process.exit(1);
}
