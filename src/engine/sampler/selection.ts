/**
 * Finding the largest of a row without sorting it. Rows may hold NaN and infinities, which are never selected; among
 * equals the lower index goes first.
 */

/** Index of the largest finite value among the first `length`; -1 when none is finite. */
export function argmax(values: Float32Array, length: number): number {
  let largest = Number.NEGATIVE_INFINITY;
  let index = -1;
  for (let i = 0; i < length; i++) {
    const value = values[i]!;
    if (value > largest && value !== Number.POSITIVE_INFINITY) {
      largest = value;
      index = i;
    }
  }
  return index;
}

/** A border in a row: what is above `value` is in, and of what equals it the first `ties`. */
export interface Cut {
  value: number;
  ties: number;
}

/** Finds the k largest of rows; one instance serves rows of any length and keeps its buffer. */
export class TopSelection {
  #buffer = new Float32Array(1024);

  /**
   * Sets `cut` so that exactly the k largest of the first `length` values are in, or all finite ones if those are fewer.
   * One pass over the values, O(length + k).
   * @param maximum the largest finite value, from `argmax`
   */
  find(values: Float32Array, length: number, maximum: number, k: number, cut: Cut): void {
    const capacity = Math.min(length, Math.max(2 * k, 1024));
    if (this.#buffer.length < capacity) this.#buffer = new Float32Array(capacity);
    const buffer = this.#buffer;
    // Values at or below the bound cannot be among the k largest: k values at least as large came before them.
    let bound = Number.NEGATIVE_INFINITY;
    let count = 0;
    for (let i = 0; i < length; i++) {
      const value = values[i]!;
      if (value > bound && value <= maximum) {
        if (count === capacity) {
          bound = moveLargestFirst(buffer, count, k);
          count = k;
          if (value <= bound) continue;
        }
        buffer[count++] = value;
      }
    }
    if (count < k) {
      cut.value = Number.NEGATIVE_INFINITY;
      cut.ties = 0;
      return;
    }
    cut.value = moveLargestFirst(buffer, count, k);
    cut.ties = k;
    for (let i = 0; i < count; i++) if (buffer[i]! > cut.value) cut.ties--;
  }
}

/** Quickselect (Hoare): moves the k largest of the first `length` values to the front; returns the k-th largest. */
function moveLargestFirst(values: Float32Array, length: number, k: number): number {
  let low = 0;
  let high = length - 1;
  while (low < high) {
    const pivot = medianOfThree(values[low]!, values[(low + high) >> 1]!, values[high]!);
    let i = low;
    let j = high;
    while (i <= j) {
      while (values[i]! > pivot) i++;
      while (values[j]! < pivot) j--;
      if (i <= j) {
        const value = values[i]!;
        values[i++] = values[j]!;
        values[j--] = value;
      }
    }
    if (k - 1 <= j) high = j;
    else if (k - 1 >= i) low = i;
    else break;
  }
  return values[k - 1]!;
}

/**
 * Sets `cut` to the border of the smallest set, largest weights first, whose sum reaches `target` (top-p). A quickselect
 * that follows sums instead of counts, O(length) on average. Reorders the weights.
 */
export function findMass(weights: Float64Array, length: number, target: number, cut: Cut): void {
  let low = 0;
  let high = length;
  let taken = 0;
  while (low < high) {
    const pivot = medianOfThree(weights[low]!, weights[(low + high - 1) >> 1]!, weights[high - 1]!);
    let sum = 0;
    let larger = low;
    let smaller = high;
    for (let i = low; i < smaller; ) {
      const weight = weights[i]!;
      if (weight > pivot) {
        sum += weight;
        weights[i++] = weights[larger]!;
        weights[larger++] = weight;
      } else if (weight < pivot) {
        weights[i] = weights[--smaller]!;
        weights[smaller] = weight;
      } else {
        i++;
      }
    }
    if (taken + sum >= target && larger > low) {
      high = larger;
      continue;
    }
    const equal = smaller - larger;
    if (taken + sum + equal * pivot >= target) {
      cut.value = pivot;
      cut.ties = Math.min(equal, Math.max(1, Math.ceil((target - taken - sum) / pivot)));
      return;
    }
    taken += sum + equal * pivot;
    low = smaller;
  }
  cut.value = 0;
  cut.ties = 0;
}

function medianOfThree(a: number, b: number, c: number): number {
  return Math.max(Math.min(a, b), Math.min(Math.max(a, b), c));
}
