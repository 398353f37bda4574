/** The GPU as WebGPU presents it, and how it is found without risking this process. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { compiledScript } from '../../../compiled.js';

export interface Adapter {
  /** For people, such as "NVIDIA H100 (Vulkan driver 550.54)". */
  readonly name: string;
  readonly vendor: string;
  readonly architecture: string;
  /** Computes on the CPU: right, but slower than the CPU backend. */
  readonly software: boolean;
  readonly features: readonly string[];
  /** Bytes. */
  readonly maxBufferSize: number;
  readonly maxStorageBufferBindingSize: number;
}

export type Probe =
  | { readonly found: true; readonly adapter: Adapter }
  /** Why there is none, as a clause: "no adapter answered". */
  | { readonly found: false; readonly reason: string };

/** A cold driver compiles its first shader; one that hangs must not hang the start. */
const PROBE_TIMEOUT = 60_000;

/**
 * Asks for an adapter and runs one node on it, in a child process: a driver that fails to start can abort the process it
 * is in.
 */
export function probeAdapter(): Promise<Probe> {
  const script = fileURLToPath(compiledScript('./probe.js', import.meta.url));
  return new Promise((resolve) => {
    execFile(process.execPath, [script], { timeout: PROBE_TIMEOUT }, (error, stdout) => {
      const answer = readAnswer(stdout);
      if (answer !== undefined) resolve(answer);
      else resolve({ found: false, reason: `starting it ended with ${ending(error)}` });
    });
  });
}

/** The last line of the child's output is its answer; drivers may write before it. */
function readAnswer(stdout: string): Probe | undefined {
  try {
    return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Probe;
  } catch {
    return undefined;
  }
}

function ending(error: (Error & { code?: unknown; signal?: unknown; killed?: boolean }) | null): string {
  if (error === null) return 'no answer';
  if (error.killed) return `no answer within ${PROBE_TIMEOUT / 1000} s`;
  return typeof error.signal === 'string' ? `signal ${error.signal}` : `code ${String(error.code)}`;
}
