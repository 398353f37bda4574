/** The servers that are compared over HTTP. */
import { huggingfaceModel } from './install.js';
import type { DriverCommand } from './process.js';
import { llamaOptions, nodeDriver, type Setting, vllmInstallation } from './registry.js';

export interface PeerServer {
  readonly name: string;
  readonly ours: boolean;
  prepare(setting: Setting): Promise<DriverCommand>;
}

const sluice: PeerServer = {
  name: 'sluice serve',
  ours: true,
  prepare: async ({ threads }) => nodeDriver('sluice-server', ['--device', 'cpu', '--threads', String(threads)]),
};

const llama: PeerServer = {
  name: 'llama.cpp Q4_0',
  ours: false,
  prepare: async (setting) => nodeDriver('llama-server', await llamaOptions('Q4_0', setting)),
};

const vllm: PeerServer = {
  name: 'vLLM bf16',
  ours: false,
  prepare: async (setting) =>
    nodeDriver('vllm-server', { ...(await vllmInstallation()), model: await huggingfaceModel(), ...setting }),
};

/** By the name on the command line. */
export const SERVERS: Readonly<Record<string, PeerServer>> = { sluice, llama, vllm };
export const DEFAULT_SERVERS = 'sluice,llama';
