// SPDX-License-Identifier: Apache-2.0

interface Source {
  crypto?: { getRandomValues(bytes: Uint8Array): Uint8Array };
}

/** 128 random bits as 32 hexadecimal digits. Node 18 has no global crypto; uniqueness is needed here, not secrecy. */
export function randomId(): string {
  const bytes = new Uint8Array(16);
  const source = (globalThis as unknown as Source).crypto;
  if (source) source.getRandomValues(bytes);
  else for (let i = 0; i < bytes.length; i++) bytes[i] = Math.floor(Math.random() * 256);
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
