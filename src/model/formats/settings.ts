/**
 * A checkpoint's settings (config.json, GGUF metadata) read with checks: every fault is a LoadError that names the file
 * and the key. Null counts as absent.
 */
import { LoadError } from '../../errors.js';

/** Above any size or count in use; keeps products of two of them exact and allocations sane. */
const MAX_INTEGER = 2 ** 31;

export class Settings {
  constructor(
    readonly file: string,
    readonly values: Readonly<Record<string, unknown>>,
    /** Where these settings lie in the file; put before keys in messages. */
    private readonly prefix = '',
  ) {}

  has(key: string): boolean {
    return this.raw(key) !== undefined;
  }

  /** A positive integer; a list of equal ones counts as one. */
  integer(key: string, fallback?: number): number {
    const value = this.optionalInteger(key) ?? fallback;
    return value ?? this.missing(key);
  }

  optionalInteger(key: string): number | undefined {
    const raw = this.raw(key);
    if (raw === undefined) return undefined;
    const list = Array.isArray(raw) ? raw : [raw];
    const value = Number(list[0]);
    if (list.some((item) => typeof item !== 'number' && typeof item !== 'bigint') || !Number.isInteger(value)) {
      this.fail(key, 'is not an integer');
    }
    if (list.some((item) => Number(item) !== value)) this.fail(key, 'differs between layers, which is not supported');
    if (value < 1 || value > MAX_INTEGER) this.fail(key, `is ${value}, which is out of range`);
    return value;
  }

  /** A finite number. */
  number(key: string, fallback?: number): number {
    return this.optionalNumber(key) ?? fallback ?? this.missing(key);
  }

  optionalNumber(key: string): number | undefined {
    const raw = this.raw(key);
    if (raw === undefined) return undefined;
    const value = typeof raw === 'number' || typeof raw === 'bigint' ? Number(raw) : Number.NaN;
    return Number.isFinite(value) ? value : this.fail(key, 'is not a finite number');
  }

  /** A finite number above zero. */
  positive(key: string, fallback?: number): number {
    const value = this.number(key, fallback);
    return value > 0 ? value : this.fail(key, `is ${value} and must be above 0`);
  }

  string(key: string, fallback?: string): string {
    return this.optionalString(key) ?? fallback ?? this.missing(key);
  }

  optionalString(key: string): string | undefined {
    const raw = this.raw(key);
    if (raw === undefined || typeof raw === 'string') return raw;
    return this.fail(key, 'is not a string');
  }

  boolean(key: string, fallback: boolean): boolean {
    return this.optionalBoolean(key) ?? fallback;
  }

  optionalBoolean(key: string): boolean | undefined {
    const raw = this.raw(key);
    if (raw === undefined || typeof raw === 'boolean') return raw;
    return this.fail(key, 'is neither true nor false');
  }

  list(key: string): readonly unknown[] | undefined {
    const raw = this.raw(key);
    if (raw === undefined || Array.isArray(raw)) return raw;
    return this.fail(key, 'is not a list');
  }

  /** The settings of a nested object. */
  section(key: string): Settings | undefined {
    const raw = this.raw(key);
    if (raw === undefined) return undefined;
    if (!isRecord(raw)) return this.fail(key, 'is not an object');
    return new Settings(this.file, raw, `${this.prefix}${key}.`);
  }

  fail(key: string, fault: string): never {
    throw new LoadError(this.file, `${this.prefix}${key} ${fault}`);
  }

  private missing(key: string): never {
    return this.fail(key, 'is missing');
  }

  private raw(key: string): unknown {
    const value = Object.hasOwn(this.values, key) ? this.values[key] : undefined;
    return value === null ? undefined : value;
  }
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
