// The decoder in the browser: fully connected layers, then for pictures transposed convolutions; ReLU between them and a
// sigmoid at the end.

import { centre } from "./geometry.js";

/** Draws pictures from capsules with the weights that PyTorch trained, without the server. */
export class Decoder {
  /** @param {object} model its description by the server; @param {ArrayBuffer} weights float32 or float16, see bundle.py */
  constructor(model, weights) {
    this.model = model;
    this.prototypes = new Map(); // class index -> pixels
    const expected = countWeights(model);
    const half = weights.byteLength === 2 * expected;
    if (!half && weights.byteLength !== 4 * expected) {
      throw new Error(`the decoder has ${weights.byteLength} bytes of weights, expected ${4 * expected} or half of it; start the explorer again`);
    }
    const numbers = half ? fromHalves(new Uint16Array(weights)) : new Float32Array(weights);
    let at = 0;
    this.layers = model.decoder.layers.map(([inputs, outputs]) => {
      const weight = numbers.subarray(at, (at += inputs * outputs));
      const bias = numbers.subarray(at, (at += outputs));
      return { inputs, outputs, weight, bias, sums: new Float64Array(outputs) };
    });
    const take = (inputs, outputs, kernel) => ({
      inputs, outputs,
      weight: numbers.subarray(at, (at += kernel * kernel * inputs * outputs)),
      bias: numbers.subarray(at, (at += outputs)),
    });
    this.doublings = model.decoder.doublings.map(([inputs, outputs, height, width]) => (
      { ...take(inputs, outputs, 4), height, width }
    ));
    this.colours = model.decoder.kind === "picture" ? take(lastChannels(model.decoder), model.shape[0], 3) : null;
  }

  /** One capsule of one class -> pixels in 0..1, channel by channel, in a new array. */
  draw(classIndex, capsule) {
    return this.picture(this.inputs(classIndex, capsule));
  }

  /** On the way from one drawing, share 0, to another, share 1, each a [class, capsule]. What enters is blended, not pixels. */
  morph(first, last, share) {
    const [from, to] = [this.inputs(...first), this.inputs(...last)];
    return this.picture({
      places: [...from.places, ...to.places],
      values: [...from.values.map((value) => (1 - share) * value), ...to.values.map((value) => share * value)],
    });
  }

  /** The inputs of the first layer that are not zero: where they are, and their values. */
  inputs(classIndex, capsule) {
    const { classes, dims, decoder } = this.model;
    const places = [];
    const values = [];
    if (decoder.indicator) {
      places.push(classIndex);
      values.push(1);
    }
    const first = (decoder.indicator ? classes.length : 0) + classIndex * dims;
    for (let component = 0; component < dims; component++) {
      places.push(first + component);
      const value = (capsule[component] - decoder.offset) / decoder.scale;
      values.push(decoder.reach ? decoder.reach * Math.tanh(value / decoder.reach) : value);
    }
    return { places, values };
  }

  picture({ places, values }) {
    let sums = addRows(this.layers[0], places, values);
    for (const layer of this.layers.slice(1)) {
      places.length = values.length = 0;
      for (let i = 0; i < sums.length; i++) {
        if (sums[i] > 0) {
          places.push(i);
          values.push(sums[i]);
        }
      }
      sums = addRows(layer, places, values);
    }
    if (this.colours) return this.paint(sums);
    const pixels = new Float32Array(sums.length);
    for (let i = 0; i < pixels.length; i++) pixels[i] = 1 / (1 + Math.exp(-sums[i]));
    return pixels;
  }

  /** From the coarse picture, channels last, to pixels channel by channel. */
  paint(coarse) {
    let [height, width] = this.model.decoder.coarsest;
    let picture = Float32Array.from(coarse, (value) => Math.max(0, value));
    for (const layer of this.doublings) {
      picture = double(picture, height, width, layer);
      ({ height, width } = layer);
    }
    return mix(picture, height, width, this.colours);
  }

  /** Drawn once per class; do not change the pixels. */
  prototype(classIndex) {
    if (!this.prototypes.has(classIndex)) this.prototypes.set(classIndex, this.draw(classIndex, centre(this.model)));
    return this.prototypes.get(classIndex);
  }
}

/** The channels of a picture decoder before they become colours. */
function lastChannels({ layers, doublings, coarsest }) {
  return doublings.at(-1)?.[1] ?? layers.at(-1)[1] / (coarsest[0] * coarsest[1]);
}

function countWeights({ decoder, shape }) {
  const layers = [
    ...decoder.layers.map(([inputs, outputs]) => [inputs, outputs, 1]),
    ...decoder.doublings.map(([inputs, outputs]) => [inputs, outputs, 16]),
    ...(decoder.kind === "picture" ? [[lastChannels(decoder), shape[0], 9]] : []),
  ];
  return layers.reduce((sum, [inputs, outputs, kernel]) => sum + (kernel * inputs + 1) * outputs, 0);
}

/** Numbers of 16 bits, as IEEE 754 has them, as ordinary ones. */
function fromHalves(halves) {
  return Float32Array.from(halves, (bits) => {
    const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
    const size = exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24;
    return bits >> 15 ? -size : size;
  });
}

// bias + Σ value · row, four rows at a time so that the sums are read and written a quarter as often.
function addRows({ outputs, weight, bias, sums }, places, values) {
  sums.set(bias);
  let k = 0;
  for (; k + 3 < places.length; k += 4) {
    const a = places[k] * outputs, b = places[k + 1] * outputs, c = places[k + 2] * outputs, d = places[k + 3] * outputs;
    const p = values[k], q = values[k + 1], r = values[k + 2], s = values[k + 3];
    for (let i = 0; i < outputs; i++) {
      sums[i] += p * weight[a + i] + q * weight[b + i] + r * weight[c + i] + s * weight[d + i];
    }
  }
  for (; k < places.length; k++) {
    const a = places[k] * outputs, p = values[k];
    for (let i = 0; i < outputs; i++) sums[i] += p * weight[a + i];
  }
  return sums;
}

// A transposed convolution, 4×4, stride 2, padding 1, and ReLU: every pixel of the result sees 2×2 of the picture. Four
// channels at a time, so that their sums stay in registers.
function double(picture, height, width, layer) {
  const { inputs, outputs, weight, bias } = layer;
  const result = new Float32Array(layer.height * layer.width * outputs);
  for (let row = 0; row < layer.height; row++) {
    for (let column = 0; column < layer.width; column++) {
      const at = (row * layer.width + column) * outputs;
      for (let four = 0; four < outputs; four += 4) {
        let a = bias[four], b = bias[four + 1], c = bias[four + 2], d = bias[four + 3];
        for (let down = (row + 1) & 1; down < 4; down += 2) {
          const above = (row + 1 - down) >> 1;
          if (above < 0 || above >= height) continue;
          for (let right = (column + 1) & 1; right < 4; right += 2) {
            const before = (column + 1 - right) >> 1;
            if (before < 0 || before >= width) continue;
            let pixel = (above * width + before) * inputs;
            const end = pixel + inputs;
            let w = ((down * 4 + right) * outputs + four) * inputs;
            for (; pixel < end; pixel++, w += 4) {
              const value = picture[pixel];
              a += value * weight[w];
              b += value * weight[w + 1];
              c += value * weight[w + 2];
              d += value * weight[w + 3];
            }
          }
        }
        result[at + four] = a > 0 ? a : 0;
        result[at + four + 1] = b > 0 ? b : 0;
        result[at + four + 2] = c > 0 ? c : 0;
        result[at + four + 3] = d > 0 ? d : 0;
      }
    }
  }
  return result;
}

// A convolution, 3×3, padding 1, and the sigmoid: channels to colours, which come one after the other.
function mix(picture, height, width, { inputs, outputs, weight, bias }) {
  const pixels = new Float32Array(outputs * height * width);
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; column++) {
      for (let colour = 0; colour < outputs; colour++) {
        let sum = bias[colour];
        for (let y = Math.max(0, row - 1); y <= Math.min(height - 1, row + 1); y++) {
          for (let x = Math.max(0, column - 1); x <= Math.min(width - 1, column + 1); x++) {
            const pixel = (y * width + x) * inputs;
            const w = (((y - row + 1) * 3 + x - column + 1) * outputs + colour) * inputs;
            for (let k = 0; k < inputs; k++) sum += picture[pixel + k] * weight[w + k];
          }
        }
        pixels[(colour * height + row) * width + column] = 1 / (1 + Math.exp(-sum));
      }
    }
  }
  return pixels;
}
