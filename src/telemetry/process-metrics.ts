/** Metrics of the process, under the names that every dashboard of Node knows. */
import type { MetricSet } from './metric-set.js';

export function addProcessMetrics(metrics: MetricSet): void {
  const startTime = performance.timeOrigin / 1000;
  const { rss } = process.memoryUsage;
  metrics.gauge('process_resident_memory_bytes', 'Memory of the process, all threads.', () => rss());
  metrics.gauge('process_start_time_seconds', 'When the process started, in seconds since 1970.', () => startTime);
  metrics.total('process_cpu_seconds_total', 'CPU time of the process, all threads.', () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
  const memory = (read: (usage: NodeJS.MemoryUsage) => number) => () => read(process.memoryUsage());
  metrics.gauge(
    'nodejs_heap_size_used_bytes',
    'JavaScript heap of the main thread in use.',
    memory((usage) => usage.heapUsed),
  );
  metrics.gauge(
    'nodejs_heap_size_total_bytes',
    'JavaScript heap of the main thread.',
    memory((usage) => usage.heapTotal),
  );
  metrics.gauge(
    'nodejs_external_memory_bytes',
    'Memory of buffers that the main thread holds.',
    memory((usage) => usage.external),
  );
}
