// Pictures of ink on canvases: what is ink, where it lies, and the same as the network saw it in training.

import { make } from "./dom.js";

export const SIDE = 336; // of the pad, and of a file while its ink is centred

/** Whether drawings and files are scaled and centred as in MNIST. */
export function isLikeMnist(model) {
  return model.shape[0] === 1 && /mnist/i.test(model.data) && !/fashion|affnist/i.test(model.data);
}

/** The mean of the outermost pixels, 0..1; a picture as in picture.js. */
export function border(pixels, [channels, height, width]) {
  let [sum, count] = [0, 0];
  for (let channel = 0; channel < channels; channel++) {
    for (let row = 0; row < height; row++) {
      for (let column = 0; column < width; column += row === 0 || row === height - 1 ? 1 : Math.max(1, width - 1)) {
        sum += pixels[(channel * height + row) * width + column];
        count += 1;
      }
    }
  }
  return sum / count;
}

/** A canvas with white ink on black, normalised as in MNIST: the ink in a 20×20 box of 28×28 pixels, centred by mass. */
export function centred(canvas) {
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  let [left, right, top, bottom, mass, x, y] = [width, -1, height, -1, 0, 0, 0];
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; column++) {
      const ink = data[4 * (row * width + column)];
      if (ink < 8) continue;
      left = Math.min(left, column);
      right = Math.max(right, column);
      top = Math.min(top, row);
      bottom = Math.max(bottom, row);
      mass += ink;
      x += ink * column;
      y += ink * row;
    }
  }
  if (!mass) return canvas;
  const scale = Math.min((width * 20) / 28 / (right - left + 1), (height * 20) / 28 / (bottom - top + 1));
  const result = blank(width, height);
  const context = result.getContext("2d");
  context.translate(width / 2, height / 2);
  context.scale(scale, scale);
  context.drawImage(canvas, -(x / mass + 0.5), -(y / mass + 0.5));
  return result;
}

/**
 * The ink of a picture file, white on black and centred, or null if the file is best left as it is: it has the network's
 * size already, the browser cannot read it, or its background is light.
 */
export async function inkOfFile(file, [, height, width], inverted) {
  const bitmap = await createImageBitmap(file).catch(() => null);
  if (!bitmap || (bitmap.width === width && bitmap.height === height)) return null;
  const scale = Math.min(1, SIDE / Math.max(bitmap.width, bitmap.height));
  const [wide, high] = [bitmap.width, bitmap.height].map((side) => Math.max(1, Math.round(side * scale)));
  const canvas = blank(wide, high, "#ffffff"); // transparent pixels count as paper
  const context = canvas.getContext("2d");
  context.drawImage(bitmap, 0, 0, wide, high);
  const picture = context.getImageData(0, 0, wide, high);
  const greys = Float32Array.from({ length: wide * high }, (_, i) => {
    const [red, green, blue] = picture.data.subarray(4 * i, 4 * i + 3);
    const grey = (0.299 * red + 0.587 * green + 0.114 * blue) / 255;
    return inverted ? 1 - grey : grey;
  });
  const ground = border(greys, [1, high, wide]);
  if (ground > 0.5) return null;
  const least = ground + 0.15; // paper is not even
  const most = greys.reduce((high, value) => Math.max(high, value), least + 0.05);
  greys.forEach((grey, i) => picture.data.fill(Math.max(0, (255 * (grey - least)) / (most - least)), 4 * i, 4 * i + 3));
  context.putImageData(picture, 0, 0);
  const unit = Math.max(wide / width, high / height);
  const step = Math.max(1, Math.round(SIDE / Math.max(width, height)));
  const whole = blank(width * step, height * step);
  whole.getContext("2d").drawImage(canvas, (width - wide / unit) * (step / 2), (height - high / unit) * (step / 2), (wide / unit) * step, (high / unit) * step);
  return { blob: await asPng(centred(whole), [1, height, width]), note: `centred and scaled as in MNIST, from ${bitmap.width}×${bitmap.height}` };
}

/** A canvas as a PNG file of the network's size; each pixel is the mean of the square it covers. */
export function asPng(source, [, height, width]) {
  const step = source.width / width;
  const { data } = source.getContext("2d").getImageData(0, 0, source.width, source.height);
  const result = make("canvas", { width, height });
  const small = new ImageData(width, height);
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; column++) {
      for (let channel = 0; channel < 3; channel++) {
        let sum = 0;
        for (let i = 0; i < step; i++) {
          for (let j = 0; j < step; j++) sum += data[4 * ((row * step + i) * source.width + column * step + j) + channel];
        }
        small.data[4 * (row * width + column) + channel] = Math.round(sum / step ** 2);
      }
      small.data[4 * (row * width + column) + 3] = 255;
    }
  }
  result.getContext("2d").putImageData(small, 0, 0);
  return new Promise((resolve) => result.toBlob(resolve, "image/png"));
}

function blank(width, height, colour = "#000000") {
  const canvas = make("canvas", { width, height });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = colour;
  context.fillRect(0, 0, width, height);
  return canvas;
}
