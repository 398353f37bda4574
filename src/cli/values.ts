/** Values of options as people write them: sizes, times, counts. Each throws commander's error for what it cannot read. */
import { InvalidArgumentError } from 'commander';

const units: Record<string, number> = {
  '': 1,
  b: 1,
  k: 1024,
  kb: 1000,
  kib: 1024,
  m: 1024 ** 2,
  mb: 1000 ** 2,
  mib: 1024 ** 2,
  g: 1024 ** 3,
  gb: 1000 ** 3,
  gib: 1024 ** 3,
};

/** Bytes of a size such as 1GiB, 512MiB, 2G or 1048576. */
export function parseSize(text: string): number {
  const [, number, unit] = /^(\d+(?:\.\d+)?)\s*([a-z]*)$/i.exec(text.trim()) ?? [];
  const factor = units[unit?.toLowerCase() ?? ''];
  if (number === undefined || factor === undefined)
    throw new InvalidArgumentError('Write a size such as 1GiB or 512MiB.');
  return Math.floor(Number(number) * factor);
}

/** A size for people: 1 GiB, 512 MiB, 1.5 GiB. */
export function formatSize(bytes: number): string {
  const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < names.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${Number(value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0))} ${names[unit]}`;
}

/** Seconds of a time such as 30s, 2m, 500ms or 30. */
export function parseSeconds(text: string): number {
  const [, number, unit = 's'] = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h)?$/.exec(text.trim()) ?? [];
  if (number === undefined) throw new InvalidArgumentError('Write a time such as 30s or 2m.');
  return (Number(number) * { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }[unit as 'ms' | 's' | 'm' | 'h']) / 1000;
}

/** An integer from `least` to `most`. */
export function integer(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() === '' || !Number.isSafeInteger(value) || value < least || value > most) {
      const range = most === Number.MAX_SAFE_INTEGER ? `${least} or more` : `${least} to ${most}`;
      throw new InvalidArgumentError(`Write a whole number, ${range}.`);
    }
    return value;
  };
}

/** A number from `least` to `most`. */
export function decimal(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() === '' || !(value >= least && value <= most)) {
      throw new InvalidArgumentError(`Write a number, ${least} to ${most}.`);
    }
    return value;
  };
}
