// Hybrid augmentation: the network deforms its reconstruction of an image, and the image keeps its details.

/** Random moves in −1..1, one for each component. */
export function randomMoves(dims) {
  return Array.from({ length: dims }, () => 2 * Math.random() - 1);
}

/** clip(modified + image − reconstruction, 0, 1), each component moved by `tweak` times its move. */
export function hybrid(decoder, classIndex, capsule, image, moves, tweak) {
  const moved = capsule.map((value, component) => Math.min(1, Math.max(0, value + tweak * moves[component])));
  const modified = decoder.draw(classIndex, moved);
  const reconstruction = decoder.draw(classIndex, capsule);
  return image.map((pixel, i) => Math.min(1, Math.max(0, pixel + modified[i] - reconstruction[i])));
}
