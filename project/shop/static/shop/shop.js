// Keeps the list of orders fresh. Without JavaScript the page shows the same after a reload.
const list = document.getElementById("orders");
setInterval(async () => {
  if (document.hidden || list.contains(document.activeElement)) return;
  const answer = await fetch(list.dataset.source).catch(() => null);
  if (answer && answer.ok) list.innerHTML = await answer.text();
}, 2000);
