"use strict";
// The lesson beside the cluster: buttons and forms ask the server and show its answer.

const askLesson = async (path, fields) => {
  const result = element("lesson-result");
  result.setAttribute("aria-busy", "true");
  const response = await fetch(`lesson/${path}`, {
    method: "POST",
    credentials: "same-origin",
    headers: { "x-schedlab-ui": "1" },
    body: new URLSearchParams(fields),
  });
  const text = await response.text();
  if (response.ok) result.innerHTML = text;
  else result.textContent = text;
  result.removeAttribute("aria-busy");
};

const showQuiz = async () => {
  element("quiz").innerHTML = await fetchText("lesson/quiz");
};

element("lesson").addEventListener("click", async (event) => {
  const target = event.target.closest("[data-lesson],[data-command],[data-manifest]");
  if (!target) return;
  if (target.dataset.manifest !== undefined) {
    const area = element("yaml").elements.text;
    area.value = target.closest("details").querySelector("pre").textContent;
    area.focus();
  } else if (target.dataset.command) {
    await askLesson("command", { line: target.dataset.command });
    await refresh();
  } else {
    shownRevision = null;
    target.disabled = true;
    await askLesson(target.dataset.lesson, {});
    target.disabled = false;
    await refresh();
    await showQuiz();
  }
});

element("lesson").addEventListener("submit", async (event) => {
  event.preventDefault();
  await askLesson(event.target.dataset.lessonForm, new FormData(event.target));
  const isAnswer = event.target.dataset.lessonForm === "answer";
  if (!isAnswer) event.target.reset();
  await refresh();
  if (isAnswer) await showQuiz();
});

showQuiz();
