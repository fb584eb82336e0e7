// The server, asked. Every refusal becomes an Error with the server's own words.

export async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The explorer does not answer. Is it still running in its terminal?");
  }
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(content.error ?? `The explorer answered ${answer.status}.`);
  return content;
}

export async function fetchWeights() {
  const answer = await fetch("/api/decoder");
  if (!answer.ok) throw new Error(`The decoder's weights did not come (${answer.status}).`);
  return answer.arrayBuffer();
}

export function sendJson(path, content, method) {
  return ask(path, { method, body: JSON.stringify(content), headers: { "content-type": "application/json" } });
}
