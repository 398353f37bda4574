/**
 * An error whose message is meant for the person who started the program: it says what is wrong, where, and what to do.
 * The command line prints it as one line, without a stack.
 */
export class UserError extends Error {
  override readonly name: string = 'UserError';
}

/** A checkpoint that cannot be loaded; the message names the file and the fault. */
export class LoadError extends UserError {
  constructor(
    readonly file: string,
    fault: string,
  ) {
    super(`${file}: ${fault}`);
  }
}
