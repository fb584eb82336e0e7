// Requests to the server. Every refusal becomes an Error with the server's message.

export async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("The explorer does not respond. Is it still running in its terminal?");
  }
  const content = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(content.error ?? `The explorer responded with status ${response.status}.`);
  return content;
}

export async function fetchWeights() {
  const response = await fetch("/api/decoder");
  if (!response.ok) throw new Error(`The decoder's weights could not be loaded (status ${response.status}).`);
  return response.arrayBuffer();
}

export function sendJson(path, content, method) {
  return ask(path, { method, body: JSON.stringify(content), headers: { "content-type": "application/json" } });
}
