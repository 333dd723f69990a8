"use strict";
// The data of the page is compressed (files/embedded.py): base64 of a DEFLATE stream, RFC 1951. The browser's own
// DecompressionStream answers later than the page counts as loaded: a print made at once would lack figures.

// [smallest value, number of extra bits] of the symbols for lengths (from 257 on) and for distances, in section 3.2.5.
const LENGTHS = Array.from({length: 28}, (_, i) => {
  const extra = i < 8 ? 0 : (i >> 2) - 1;
  return [3 + (i < 8 ? i : (4 + (i & 3)) << extra), extra];
}).concat([[258, 0]]);
const DISTANCES = Array.from({length: 30}, (_, i) => {
  const extra = i < 4 ? 0 : (i >> 1) - 1;
  return [1 + (i < 4 ? i : (2 + (i & 1)) << extra), extra];
});
// The order in which the lengths of the codes for lengths are given, section 3.2.7.
const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

// Lengths of the codes of symbols -> what the next `bits` bits mean: symbol << 4 | length of its code.
function codes(lengths) {
  const bits = Math.max(...lengths);
  const table = new Uint16Array(1 << bits);
  for (let length = 1, code = 0; length <= bits; length += 1, code <<= 1) {
    for (let symbol = 0; symbol < lengths.length; symbol += 1) {
      if (lengths[symbol] !== length) continue;
      let reversed = 0; // a code begins with its highest bit, everything else with its lowest
      for (let i = 0; i < length; i += 1) reversed |= ((code >> i) & 1) << (length - 1 - i);
      for (let i = reversed; i < table.length; i += 1 << length) table[i] = (symbol << 4) | length;
      code += 1;
    }
  }
  return {bits, table};
}

// Bytes of a DEFLATE stream -> the `size` bytes that it is of.
function inflated(packed, size) {
  const out = new Uint8Array(size);
  let [at, end, held, count] = [0, 0, 0, 0]; // in packed, in out; bits that are read and not used yet, and how many
  const fill = (wanted) => { for (; count < wanted; count += 8) held |= packed[at++] << count; };
  const drop = (bits) => { held >>>= bits; count -= bits; };
  const number = (bits) => {
    fill(bits);
    const value = held & ((1 << bits) - 1);
    drop(bits);
    return value;
  };
  const symbol = ({bits, table}) => {
    fill(bits);
    const found = table[held & ((1 << bits) - 1)];
    drop(found & 15);
    return found >> 4;
  };
  const described = () => {
    const [literals, distances, given] = [number(5) + 257, number(5) + 1, number(4) + 4];
    const own = new Array(19).fill(0);
    for (let i = 0; i < given; i += 1) own[ORDER[i]] = number(3);
    const [code, lengths] = [codes(own), []];
    while (lengths.length < literals + distances) {
      const next = symbol(code);
      if (next < 16) lengths.push(next);
      else if (next === 16) lengths.push(...new Array(3 + number(2)).fill(lengths.at(-1)));
      else lengths.push(...new Array(next === 17 ? 3 + number(3) : 11 + number(7)).fill(0));
    }
    return [codes(lengths.slice(0, literals)), codes(lengths.slice(literals))];
  };
  const fixed = () => [codes(Array.from({length: 288}, (_, i) => (i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8))), codes(new Array(30).fill(5))];
  for (let last = 0; !last;) {
    last = number(1);
    const kind = number(2);
    if (kind === 0) { // as it is, from the next whole byte on
      at -= count >> 3;
      held = count = 0;
      const length = number(16);
      number(16);
      out.set(packed.subarray(at, at + length), end);
      at += length;
      end += length;
      continue;
    }
    const [literals, distances] = kind === 1 ? fixed() : described();
    for (let next = symbol(literals); next !== 256; next = symbol(literals)) {
      if (next < 256) {
        out[end++] = next;
        continue;
      }
      const [least, more] = LENGTHS[next - 257];
      const stop = end + least + number(more);
      const [nearest, further] = DISTANCES[symbol(distances)];
      for (let from = end - nearest - number(further); end < stop;) out[end++] = out[from++];
    }
  }
  return out;
}

// The data of an element that files/embedded.py wrote.
function unpacked(element) {
  const packed = Uint8Array.from(atob(element.textContent), (byte) => byte.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(inflated(packed, Number(element.dataset.bytes))));
}
