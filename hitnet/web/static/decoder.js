// The decoder, in the page: fully connected layers with ReLU between them and a sigmoid at the end.

/** Draws pictures from capsules with the weights that PyTorch trained; no server is asked. */
export class Decoder {
  /** @param {object} model what the server says of the model; @param {ArrayBuffer} weights float32, see bundle.py */
  constructor(model, weights) {
    this.model = model;
    const numbers = new Float32Array(weights);
    let at = 0;
    this.layers = model.decoder.layers.map(([inputs, outputs]) => {
      const weight = numbers.subarray(at, (at += inputs * outputs));
      const bias = numbers.subarray(at, (at += outputs));
      return { inputs, outputs, weight, bias, sums: new Float64Array(outputs) };
    });
    if (at !== numbers.length) throw new Error(`the decoder has ${numbers.length} weights, expected ${at}`);
  }

  /** One capsule of one class -> pixels in 0..1, channel by channel, in a new array. */
  draw(classIndex, capsule) {
    const { classes, dims, decoder } = this.model;
    // Only the class's own places are not zero; the others need not be looked at.
    const places = [];
    const values = [];
    if (decoder.indicator) {
      places.push(classIndex);
      values.push(1);
    }
    const first = (decoder.indicator ? classes.length : 0) + classIndex * dims;
    for (let component = 0; component < dims; component++) {
      places.push(first + component);
      values.push((capsule[component] - decoder.offset) / decoder.scale);
    }
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
    const pixels = new Float32Array(sums.length);
    for (let i = 0; i < pixels.length; i++) pixels[i] = 1 / (1 + Math.exp(-sums[i]));
    return pixels;
  }

  prototype(classIndex) {
    return this.draw(classIndex, centre(this.model));
  }
}

/** The capsule that hits the middle. */
export function centre(model) {
  return new Array(model.dims).fill(0.5);
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
