/** What Linux says of the processors: who had them, and how much was lost to other machines. Elsewhere all is zero. */
import { readdirSync, readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';

/** Processor seconds of a run, and its wall time. */
export interface CpuUse {
  readonly own: number;
  /** Of other programs: what they took, the measured one could not have. */
  readonly others: number;
  /** Taken by the hypervisor for other machines. */
  readonly stolen: number;
  readonly wall: number;
}

/** Clock ticks a second (USER_HZ), which is 100 on all common Linux systems. */
const TICKS = 100;

export interface CpuTimes {
  readonly busy: number;
  readonly stolen: number;
  readonly wall: number;
}

/** Since boot, in seconds, over all processors; proc_stat(5). */
export function cpuTimes(): CpuTimes {
  const wall = performance.now() / 1000;
  const line = readOrEmpty('/proc/stat').split('\n')[0] ?? '';
  const [user = 0, nice = 0, system = 0, , , irq = 0, softIrq = 0, stolen = 0] = line
    .split(/\s+/)
    .slice(1)
    .map((field) => Number(field) / TICKS);
  return { busy: user + nice + system + irq + softIrq, stolen, wall };
}

/** Processor seconds of all live processes of a group, and of their children that have ended; proc_pid_stat(5). */
export function groupSeconds(group: number): number {
  let ticks = 0;
  for (const stat of groupStats(group)) ticks += stat.slice(12, 16).reduce((sum, field) => sum + Number(field), 0);
  return ticks / TICKS;
}

/** Resident memory, in bytes, of the live processes of a group; a page that is mapped several times counts once. */
export function residentMemory(group: number): number {
  let kibibytes = 0;
  for (const [pid] of groupStats(group)) {
    kibibytes += Number(/^Pss:\s+(\d+)/m.exec(readOrEmpty(`/proc/${pid}/smaps_rollup`))?.[1] ?? 0);
  }
  return kibibytes * 1024;
}

/** Fields of /proc/PID/stat with the process's name left out: [0] is the id, [3] the group, [12] to [15] the times. */
function* groupStats(group: number): Generator<string[]> {
  for (const pid of processes()) {
    const text = readOrEmpty(`/proc/${pid}/stat`);
    const fields = [pid, ...text.slice(text.lastIndexOf(')') + 2).split(' ')];
    if (fields[3] !== String(group)) continue;
    yield fields;
  }
}

function processes(): string[] {
  try {
    return readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  } catch {
    return [];
  }
}

/** A process may end while it is looked at. */
function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
