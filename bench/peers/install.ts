/**
 * Other engines and what they need, installed where this repository's own packages are not: a directory of the user's
 * cache. Each thing is made once, under another name first, so that what is there is complete.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheDirectory } from '../../src/model/prepare.js';
import { bundledModel, root } from '../support/paths.js';
import { requantizeGguf } from './convert/gguf.js';
import { exportHuggingface } from './convert/huggingface.js';
import type { QuantizedType } from './convert/quantize.js';

const directory = join(cacheDirectory(), 'peers');
export const scripts = join(root, 'bench', 'peers', 'drivers');

/** Runs a command to its end; its output goes to ours. Throws when it fails. */
async function command(program: string, args: readonly string[], options: { readonly cwd?: string } = {}) {
  console.error(`> ${program} ${args.join(' ')}`);
  const child = spawn(program, args, { stdio: ['ignore', 2, 2], ...options });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', resolve);
  });
  if (code !== 0) throw new Error(`${program} ${args[0]} failed with code ${code}`);
}

/** What is being made, so that two peers that need the same wait for one. */
const underWay = new Map<string, Promise<string>>();

function once(name: string, make: (target: string) => Promise<void>): Promise<string> {
  const target = join(directory, name);
  const made = underWay.get(name) ?? (existsSync(target) ? Promise.resolve(target) : makeAt(target, make));
  underWay.set(name, made);
  return made;
}

async function makeAt(target: string, make: (target: string) => Promise<void>): Promise<string> {
  await mkdir(directory, { recursive: true });
  await make(target);
  return target;
}

/** Directories are made under another name; converters of ours do so themselves. */
function directoryOnce(name: string, make: (unfinished: string) => Promise<void>): Promise<string> {
  return once(name, async (target) => {
    const unfinished = `${target}.unfinished`;
    await rm(unfinished, { recursive: true, force: true });
    await mkdir(unfinished);
    await make(unfinished);
    await rename(unfinished, target);
  });
}

/** An npm package with those of its optional parts that are named. */
export function npmPackages(name: string, packages: readonly string[]): Promise<string> {
  return directoryOnce(name, async (unfinished) => {
    await writeFile(join(unfinished, 'package.json'), '{ "private": true }\n');
    const flags = ['--ignore-scripts', '--omit=optional', '--no-audit', '--no-fund'];
    await command('npm', ['install', ...flags, ...packages], { cwd: unfinished });
  });
}

export interface PythonPackages {
  readonly packages: readonly string[];
  /** Installed after the others, since they ask for more than is used of them here. */
  readonly withoutDependencies?: readonly string[];
  /** Taken away again: dependencies that fail to load beside the build of torch that is chosen, and are not used. */
  readonly removed?: readonly string[];
}

/**
 * A virtual environment; returns its Python. Virtual environments know their own path, so this one is made in place, and
 * marked when it is complete.
 */
export async function virtualEnvironment(name: string, content: PythonPackages): Promise<string> {
  const { packages, withoutDependencies = [], removed = [] } = content;
  const place = join(directory, name);
  const python = join(place, 'bin', 'python');
  const pip = (...args: readonly string[]) => command(python, ['-m', 'pip', ...args]);
  await once(join(name, 'complete'), async (marker) => {
    await rm(place, { recursive: true, force: true });
    await command('python3', ['-m', 'venv', place]);
    await pip('install', '--quiet', ...packages);
    if (withoutDependencies.length > 0) await pip('install', '--quiet', '--no-deps', ...withoutDependencies);
    if (removed.length > 0) await pip('uninstall', '--quiet', '--yes', ...removed);
    await writeFile(marker, '');
  });
  return python;
}

/** The bundled model with its matrices in another type. */
export function ggufModel(type: QuantizedType): Promise<string> {
  return once(`SmolLM2-135M-Instruct.${type}.gguf`, (target) => requantizeGguf(bundledModel, target, type));
}

/** The bundled model as fp16 safetensors. */
export function huggingfaceModel(): Promise<string> {
  return once('smollm2-fp16', (target) => exportHuggingface(bundledModel, target));
}

/** What a converter makes of the fp16 model: `args` get the source and the target. */
export async function convertedModel(
  name: string,
  python: string,
  args: (source: string, target: string) => readonly string[],
): Promise<string> {
  const source = await huggingfaceModel();
  return directoryOnce(name, (unfinished) => command(python, args(source, unfinished)));
}
