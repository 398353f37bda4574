/** Recognizes what is often saved under a model file's name by mistake, so that the refusal can say so. */
import { LoadError } from '../../errors.js';
import type { BinaryFile } from './binary-file.js';

/** Throws LoadError when the file is a Git LFS pointer, a web page or a PyTorch archive. */
export async function refuseImpostors(file: BinaryFile): Promise<void> {
  const start = Buffer.from(await file.read(0, Math.min(file.size, 512))).toString('latin1');
  if (start.startsWith('version https://git-lfs')) {
    const size = /^size (\d+)$/m.exec(start)?.[1];
    const of = size === undefined ? '' : ` of ${Number(size).toLocaleString('en-US')} bytes`;
    throw new LoadError(
      file.path,
      `a Git LFS pointer, not the file${of} that it stands for; fetch it with "git lfs pull"`,
    );
  }
  if (/^\s*<(!doctype|html|head|\?xml)/i.test(start)) {
    throw new LoadError(file.path, 'a web page saved under the name of a model file; download the file itself');
  }
  if (start.startsWith('PK\u0003\u0004')) {
    throw new LoadError(file.path, 'a ZIP archive (a PyTorch checkpoint?); safetensors or GGUF is needed');
  }
}
