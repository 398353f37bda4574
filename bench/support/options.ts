/** Options of a benchmark on its command line. */
import { type ParseArgsConfig, parseArgs } from 'node:util';

/** Options after the benchmark's name, with or without a `--` before them. Ends the process for one that is not known. */
export function readOptions<T extends NonNullable<ParseArgsConfig['options']>>(options: T) {
  const args = process.argv.slice(2).filter((argument) => argument !== '--');
  try {
    return parseArgs({ args, options, strict: true, allowPositionals: false }).values;
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    console.error(
      `options: ${Object.keys(options)
        .map((name) => `--${name}`)
        .join(' ')}`,
    );
    process.exit(2);
  }
}

/** A number, where one was given. */
export function readOptionalNumber(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}

/** Positive whole numbers, as in 1,4,16. */
export function readNumbers(text: string): number[] {
  const numbers = text.split(',').map(Number);
  if (numbers.some((value) => !Number.isSafeInteger(value) || value < 1)) {
    throw new Error(`"${text}" is not a list of whole numbers such as 1,4,16`);
  }
  return numbers;
}
