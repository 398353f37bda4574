/**
 * Learns which way of computing a step is the faster one. That depends on the machine and, on a virtual one, on where its
 * cores lie at the moment, so expectations are corrected by what steps took.
 */
import { performance } from 'node:perf_hooks';

/** By all threads at once, or divided between replicas. */
export type Way = 'whole' | 'divided';

/** What a step is expected to take in each way, in a unit of its own. */
export type Expectation = Readonly<Record<Way, number>>;

/** Share of what was believed that is left after a step. */
const MEMORY = 0.8;
/**
 * A step that took longer than so many times what was believed a step ago was disturbed: no more than that is taken from it.
 * What was believed longer ago may be out of date.
 */
const DISTURBED = 1.5;
/** A way that is expected to take so many times as long as the other is not tried, however either has done of late. */
const HOPELESS = 1.5;
/** By how much a step without a measurement of a way makes it look better, so that each is tried again and again. */
const OPTIMISM = 0.995;

interface Experience {
  /** Milliseconds that a unit takes; undefined until measured. */
  unit: number | undefined;
  /** Steps since it was measured. */
  age: number;
}

export class Pace {
  readonly #ways: Record<Way, Experience> = {
    whole: { unit: undefined, age: 0 },
    divided: { unit: undefined, age: 0 },
  };

  choose(expectation: Expectation): Way {
    if (expectation.divided > HOPELESS * expectation.whole) return 'whole';
    if (expectation.whole > HOPELESS * expectation.divided) return 'divided';
    return this.#hope('divided', expectation) < this.#hope('whole', expectation) ? 'divided' : 'whole';
  }

  /** Takes what a step took, in milliseconds. */
  record(way: Way, expectation: Expectation, milliseconds: number): void {
    const { unit: believed, age } = this.#ways[way];
    let unit = milliseconds / expectation[way];
    if (believed !== undefined) {
      if (age === 0) unit = Math.min(unit, DISTURBED * believed);
      unit += MEMORY ** (age + 1) * (believed - unit);
    }
    this.#ways.whole.age++;
    this.#ways.divided.age++;
    this.#ways[way] = { unit, age: 0 };
  }

  /** Runs a step and records it, unless it fails. */
  async time<T>(way: Way, expectation: Expectation, run: (way: Way) => Promise<T>): Promise<T> {
    const start = performance.now();
    const result = await run(way);
    this.record(way, expectation, performance.now() - start);
    return result;
  }

  /** Until both are measured, they are taken to be equally fast. */
  #hope(way: Way, expectation: Expectation): number {
    const { whole, divided } = this.#ways;
    const { unit = whole.unit ?? divided.unit ?? 1, age } = this.#ways[way];
    return unit * OPTIMISM ** age * expectation[way];
  }
}
