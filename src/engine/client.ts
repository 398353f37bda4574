/** The server's view of the engine. `WorkerEngineClient` talks to the worker; tests implement it without one. */
import type { ChoiceOutput, EngineFaultCode, EngineInfo, EngineStats, GenerationRequest, Seconds } from './protocol.js';

/** A request without what the client itself fills in. */
export type NewRequest = Omit<GenerationRequest, 'id' | 'arrival'>;

/** The engine could not serve a request; thrown by `generate`. */
export class EngineError extends Error {
  override readonly name = 'EngineError';
  constructor(
    readonly code: EngineFaultCode,
    message: string,
    /** When another try may succeed, as far as it can be told. */
    readonly retryAfter?: Seconds,
  ) {
    super(message);
  }
}

export type EngineState = 'loading' | 'ready' | 'draining' | 'failed' | 'closed';

export interface EngineClient {
  readonly state: EngineState;
  /** Undefined until ready. */
  readonly info: EngineInfo | undefined;
  /** After the latest step; undefined before the first. */
  readonly stats: EngineStats | undefined;
  /**
   * Since when a step is due: the end of the last one, or the arrival of the first request after it had none. Undefined
   * while there is no request, or no model yet.
   */
  readonly stepDueSince: Seconds | undefined;
  /** Resolves when the model is loaded; rejects with the reason when it cannot be. */
  ready(): Promise<EngineInfo>;
  /**
   * Yields the outputs of all choices as steps produce them; several may come at once. Ends after every choice has its
   * `finish`. Throws EngineError when the engine refuses or loses the request. Leaving the loop, or `signal`, aborts it:
   * its sequences end within the current step, and the iteration ends without a further output.
   */
  generate(request: NewRequest, signal?: AbortSignal): AsyncIterable<readonly ChoiceOutput[]>;
  /** Forgets the prefixes of earlier prompts, for all requests made after it; what runs goes on. */
  resetPrefixCache(): void;
  /** Aborts what runs, releases the model and ends the worker. Safe to call twice. */
  close(): Promise<void>;
}
