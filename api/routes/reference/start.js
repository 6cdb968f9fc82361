"use strict";
// Reads the description with the caller's token and shows it; requests that are tried out carry the same token.
document.getElementById("opening").addEventListener("submit", async (event) => {
  event.preventDefault();
  const token = document.getElementById("token").value.trim();
  const problem = document.getElementById("problem");
  problem.textContent = "";
  const answer = await fetch("openapi.json", { headers: { Authorization: `Bearer ${token}` } });
  const body = await answer.json();
  if (!answer.ok) {
    problem.textContent = body.error.message;
    return;
  }
  document.getElementById("opening").hidden = true;
  window.SwaggerUIBundle({
    spec: body,
    dom_id: "#reference",
    deepLinking: true,
    validatorUrl: null,
    requestInterceptor: (request) => {
      request.headers.Authorization = `Bearer ${token}`;
      return request;
    },
  });
});
