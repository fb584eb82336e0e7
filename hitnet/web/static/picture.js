// Pixels on canvases. A picture is an array of numbers in 0..1, channel by channel, with shape [channels, height, width].

/** Draw a picture into a canvas at its own size; the style sheet scales it crisply. */
export function paint(canvas, pixels, shape) {
  fit(canvas, shape[2], shape[1]);
  canvas.getContext("2d").putImageData(toImageData(pixels, shape), 0, 0);
}

/** Draw several pictures side by side. */
export function paintStrip(canvas, pictures, shape, from = 0) {
  const context = canvas.getContext("2d");
  pictures.forEach((pixels, place) => context.putImageData(toImageData(pixels, shape), (from + place) * shape[2], 0));
}

/**
 * Draw image − drawing. Grey images: orange where the image is brighter, blue where the drawing is. Colour: grey is 0.
 * A difference of `reach` has the full colour.
 */
export function paintResidual(canvas, image, drawing, shape, reach = 1) {
  const [channels, height, width] = shape;
  fit(canvas, width, height);
  const data = new ImageData(width, height);
  const area = width * height;
  for (let i = 0; i < area; i++) {
    for (let channel = 0; channel < 3; channel++) {
      const at = (channels === 3 ? channel * area : 0) + i;
      const difference = (image[at] - drawing[at]) / reach;
      const tint = difference > 0 ? [217, 98, 43] : [37, 99, 168];
      const value = channels === 3 ? 128 + 127 * difference : 250 + (tint[channel] - 250) * Math.abs(difference);
      data.data[4 * i + channel] = Math.round(value);
    }
    data.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d").putImageData(data, 0, 0);
}

/** Resize a canvas only if its size differs: setting the width clears it. */
export function fit(canvas, width, height) {
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
}

export function toImageData(pixels, [channels, height, width]) {
  const data = new ImageData(width, height);
  const area = width * height;
  const second = channels === 3 ? area : 0;
  for (let i = 0; i < area; i++) {
    data.data[4 * i] = Math.round(255 * pixels[i]);
    data.data[4 * i + 1] = Math.round(255 * pixels[i + second]);
    data.data[4 * i + 2] = Math.round(255 * pixels[i + 2 * second]);
    data.data[4 * i + 3] = 255;
  }
  return data;
}

export function bytesFromBase64(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** Bytes 0..255 -> numbers 0..1. */
export function fromBytes(bytes) {
  return Float32Array.from(bytes, (byte) => byte / 255);
}

/** Cut base64 bytes into pictures of one shape. */
export function unpack(base64, shape) {
  const bytes = bytesFromBase64(base64);
  const size = shape[0] * shape[1] * shape[2];
  return Array.from({ length: bytes.length / size }, (_, place) => fromBytes(bytes.subarray(place * size, (place + 1) * size)));
}

/** The mean of the channels: one picture without colours. */
export function grey(pixels, [channels, height, width]) {
  const area = height * width;
  return Float32Array.from({ length: area }, (_, i) => {
    let sum = 0;
    for (let channel = 0; channel < channels; channel++) sum += pixels[channel * area + i];
    return sum / channels;
  });
}

export function largestDifference(first, second) {
  return first.reduce((most, value, i) => Math.max(most, Math.abs(value - second[i])), 0);
}

export function meanDifference(first, second) {
  let sum = 0;
  for (let i = 0; i < first.length; i++) sum += Math.abs(first[i] - second[i]);
  return sum / first.length;
}

/** Offer a picture as a PNG file, every pixel enlarged to a crisp square. */
export function savePng(canvas, name) {
  const scale = Math.max(1, Math.round(560 / Math.max(canvas.width, canvas.height)));
  const large = document.createElement("canvas");
  fit(large, canvas.width * scale, canvas.height * scale);
  const context = large.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(canvas, 0, 0, large.width, large.height);
  large.toBlob((blob) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${name.replace(/[^\p{L}\p{N}._-]+/gu, "-")}.png`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }, "image/png");
}
